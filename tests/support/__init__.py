"""The common ground of several folders of tests: templates, tables made from them, and servers."""
