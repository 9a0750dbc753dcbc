// Runs a comparison with the TypeScript SDK and its default time limit of 60 s per request, by following the hints.
//   node follow_hints.mjs SDK_FOLDER PYTHON ARGUMENTS_JSON
// Prints one JSON object: the answer of the comparison, how often a call was made, and the longest call.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, python, argumentsJson] = process.argv.slice(2);
const find = createRequire(`${folder}/package.json`);
const load = (name) => import(pathToFileURL(find.resolve(`@modelcontextprotocol/sdk/${name}`)).href);
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");

const transport = new StdioClientTransport({
  command: python,
  args: ["-m", "vaws_mcp", "mcp"],
  env: { ...process.env },
  stderr: "inherit",
});
const client = new Client({ name: "follow-hints", version: "1.0.0" });
await client.connect(transport);

let calls = 0;
let longest = 0;
async function call(name, args) {
  const begin = Date.now();
  const result = await client.callTool({ name, arguments: args });
  calls += 1;
  longest = Math.max(longest, Date.now() - begin);
  return JSON.parse(result.content[0].text);
}

const begin = Date.now();
let answer = await call("bench_compare", JSON.parse(argumentsJson));
while (answer.status === "running") {
  const tool = /call (\w+) with run_id=([\w-]+)/i.exec(answer.hint);
  answer = await call(tool[1], { run_id: tool[2] });
}
await client.close();
console.log(JSON.stringify({ answer: answer.result ?? answer, calls, longest_ms: longest, total_ms: Date.now() - begin }));
