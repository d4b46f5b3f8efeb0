"""The pages of the documentation: text, links, inline code, tables, and code blocks with their marks.

A code block is marked by a comment on the line before it:

    <!-- run -->             its commands are run, in a folder of the page's own, beside a server whose
                             store is orders.db there; localhost:4001 and :4002 are put in place by its
                             real addresses, `perdure` and `build/perdure` are the binary under test
    <!-- serve -->           one command, a server: started, then stopped by SIGTERM
    <!-- make run -->        the same by the Makefile
    <!-- ready -->           the ready line that a server prints
    <!-- config -->          a config file: a server is started with it
    <!-- from: PATH -->      lines of that file, byte for byte
    <!-- static: WHY -->     not run, and why; what it names must exist all the same

A text block right behind one that is run is its output, in which `…` stands for anything.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# Pages of others, held by tests of their own; here for links, settings and flags.
GUESTS = {"docs/store.md", "docs/cli.md", "docs/settings.md"}


class Block:
    def __init__(self, page, line, language, mark, text):
        self.page, self.line, self.language, self.mark, self.text = page, line, language, mark, text

    def __str__(self):
        return f"{self.page.name}:{self.line}"

    def is_shell(self):
        return self.language in ("sh", "bash")

    def commands(self):
        """Lines with continuations joined, without comments."""
        for line in self.text.replace("\\\n", " ").splitlines():
            line = re.sub(r"(^|\s)#.*$", "", line).strip()
            if line:
                yield line


class Page:
    def __init__(self, path, text=None):
        self.path = path
        self.name = str(path.relative_to(ROOT))
        self.text = path.read_text() if text is None else text
        self.blocks = []
        self.prose = self._split()

    def changed(self, old, new):
        return Page(self.path, self.text.replace(old, new))

    def _split(self):
        """The text outside of code blocks; fills self.blocks."""
        prose, code, mark, start = [], None, "", 0
        lines = self.text.splitlines()
        for number, line in enumerate(lines, 1):
            if code is not None:
                if line.startswith("```"):
                    self.blocks.append(Block(self, start, language, mark, "\n".join(code) + "\n"))
                    code, mark = None, ""
                else:
                    code.append(line)
                continue
            if line.startswith("```"):
                language, code, start = line[3:].strip(), [], number
                continue
            found = re.fullmatch(r"<!-- (.*) -->", line)
            mark = found.group(1) if found else ""
            prose.append("" if found else line)
        if code is not None:
            raise ValueError(f"{self.name}: a code block does not end")
        return "\n".join(prose)

    def links(self):
        return re.findall(r"\]\(([^)\s]+)\)", self.prose)

    def anchors(self):
        """As GitHub makes them of headings."""
        seen, out = {}, set()
        for title in re.findall(r"^#+ +(.*)$", self.prose, re.MULTILINE):
            slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            count = seen.get(slug, 0)
            seen[slug] = count + 1
            out.add(slug if count == 0 else f"{slug}-{count}")
        return out

    def inline(self):
        """What stands between backquotes in the prose."""
        return [code.replace("\n", " ") for code in re.findall(r"`([^`]+)`", self.prose)]

    def rows(self, *header):
        """Cells of the table, or tables, whose header begins with these."""
        inside = False
        for line in self.prose.splitlines():
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if not cells:
                inside = False
            elif tuple(cells[: len(header)]) == header:
                inside = True
            elif inside and not re.fullmatch(r"[-: ]+", cells[0]):
                yield cells


def load():
    paths = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md"]
    paths += sorted((ROOT / "docs").glob("*.md"))
    return {str(path.relative_to(ROOT)): Page(path) for path in paths}


def source(*patterns):
    """The text of the files that match, by name."""
    return {str(path.relative_to(ROOT)): path.read_text()
            for pattern in patterns for path in sorted(ROOT.glob(pattern))}
