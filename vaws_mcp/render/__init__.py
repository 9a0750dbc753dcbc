"""Tables, series and report views in; Markdown, CSV, terminal text, figures and HTML out."""
