"""How is it learned which tokens a prompt becomes, off the path of requests?

`lessons` is what a worker notices of each request; `link` its line to the one process that learns for all;
`school` that process's part: it asks engines (`asker`), after dispatch and over connections of its own, takes
the ids that copies brought, and tells every worker what was learned (`frames`).
"""
