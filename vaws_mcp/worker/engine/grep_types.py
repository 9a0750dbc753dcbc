"""Kinds of files by name, as ``type`` of a search: the usual ones, and those of kernels and models."""

from __future__ import annotations

from typing import Dict, List

TYPES: Dict[str, List[str]] = {
    "asm": ["*.s", "*.S", "*.asm"],
    "c": ["*.c", "*.h"],
    "cmake": ["*.cmake", "CMakeLists.txt"],
    "config": ["*.cfg", "*.conf", "*.ini", "*.config"],
    "cpp": ["*.cpp", "*.cc", "*.cxx", "*.hpp", "*.hh", "*.hxx", "*.h", "*.inl", "*.ipp"],
    "css": ["*.css", "*.scss", "*.less"],
    "csv": ["*.csv", "*.tsv"],
    "cuda": ["*.cu", "*.cuh"],
    "docker": ["Dockerfile", "Dockerfile.*", "*.dockerfile"],
    "go": ["*.go"],
    "html": ["*.html", "*.htm"],
    "java": ["*.java"],
    "jinja": ["*.jinja", "*.jinja2", "*.j2"],
    "js": ["*.js", "*.jsx", "*.mjs", "*.cjs"],
    "json": ["*.json", "*.jsonl"],
    "log": ["*.log"],
    "make": ["Makefile", "makefile", "GNUmakefile", "*.mk"],
    "md": ["*.md", "*.markdown", "*.mdx"],
    "protobuf": ["*.proto"],
    "py": ["*.py", "*.pyi"],
    "rst": ["*.rst"],
    "rust": ["*.rs"],
    "sh": ["*.sh", "*.bash", "*.zsh", ".bashrc", ".profile", ".zshrc"],
    "sql": ["*.sql"],
    "toml": ["*.toml"],
    "ts": ["*.ts", "*.tsx", "*.mts", "*.cts"],
    "txt": ["*.txt"],
    "xml": ["*.xml"],
    "yaml": ["*.yaml", "*.yml"],
}
ALIASES = {"python": "py", "javascript": "js", "typescript": "ts", "markdown": "md", "bash": "sh", "proto": "protobuf"}
