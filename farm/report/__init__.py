"""Reports of what was measured: pages for people, Markdown for a merge request, JUnit and JSON for programs."""
