"""What Sphinx lacks for this site: links from inline code, docstrings as we write them, tabs, diagrams, search while typing."""

from __future__ import annotations

import ast
import inspect
import json
import posixpath
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import reduce
from operator import or_
from pathlib import Path
from textwrap import dedent
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pydantic
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.transforms import SphinxTransform
from sphinx.util.inspect import stringify_signature
from sphinx.util.logging import getLogger
from sphinx.util.nodes import make_refnode
from sphinx_design.shared import create_component

from digests import digest
from make_docs import command_names
from public_names import public_names
from tppkit.codes import CODES
from tppkit.protocol.assumptions import ASSUMPTIONS

CODES_PAGE, COMMANDS_PAGE, ASSUMPTIONS_PAGE = "reference/codes", "reference/cli", "reference/assumptions"
COMMANDS = {name: nodes.make_id(name) for name in command_names()}
NAMES = [name for names in public_names().values() for name in names]
ROWS = {CODES_PAGE: ({*CODES}, "code"), ASSUMPTIONS_PAGE: ({row.id for row in ASSUMPTIONS}, "assumption")}
LOGGER = getLogger(__name__)


# Docstrings

CODE = re.compile(r"^(\S.*)\n\n*((?:    .*\n|\n(?=    |\n))+)", re.MULTILINE)
SECTIONS = {"Args:", "Attributes:", "Raises:", "Returns:"}


def read_docstring(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Make reStructuredText of a docstring: single backticks hold code, an indented block is an example."""
    if what == "data":
        lines[:] = _comment(name.rpartition(".")[2], value) or lines
    text, read, end = "\n".join(lines) + "\n", "", 0
    for found in CODE.finditer(text):
        if found[1] not in SECTIONS:
            indent = "    " * (found[1] == "Example:")
            code = "".join(f"{indent}{line}\n" for line in found[2].rstrip().split("\n"))
            read += f"{_prose(text[end : found.end(1)])}\n\n{indent}.. code-block:: {_language(found[2])}\n\n{code}\n"
            end = found.end()
    lines[:] = (read + _prose(text[end:])).split("\n")


def _comment(name: str, value: object) -> list[str]:
    """The comment on a constant, in the module that defines it."""
    modules = [one for one in sys.modules if one.startswith("tppkit.") and vars(sys.modules[one]).get(name) is value]
    found = [ModuleAnalyzer.for_module(module).find_attr_docs().get(("", name), []) for module in modules]
    return next(filter(None, found), [])


def _language(code: str) -> str:
    try:
        ast.parse(dedent(code))
    except SyntaxError:
        return "text"
    return "python"


def _prose(text: str) -> str:
    parts = re.split(r"`([^`]+)`", text)
    return "".join(
        f"``{part.strip()}``" if number % 2 else re.sub(r"[*|\\]|_\b", r"\\\g<0>", part)
        for number, part in enumerate(parts)
    )


def skip_member(app: Sphinx, what: str, *_: Any) -> bool | None:
    """The pages name the members of modules."""
    return True if what == "module" else None


def read_signature(
    app: Sphinx, what: str, name: str, value: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None] | None:
    """Leave the validators of `Annotated` out of the signature of a model."""
    if not (inspect.isclass(value) and issubclass(value, pydantic.BaseModel)):
        return None
    shown = inspect.signature(value)
    parameters = [one.replace(annotation=_bare(one.annotation)) for one in shown.parameters.values()]
    return stringify_signature(
        shown.replace(parameters=parameters), show_return_annotation=False, unqualified_typehints=True
    ), None


def _bare(annotation: Any) -> Any:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _bare(arguments[0])
    bare = tuple(map(_bare, arguments))
    if bare == arguments:
        return annotation
    return reduce(or_, bare) if origin in (Union, UnionType) else origin[bare]


# Links


class Links:
    """What inline code can link to."""

    def __init__(self, app: Sphinx) -> None:
        self.objects = app.env.get_domain("py").objects
        self.named: dict[str, set[str]] = defaultdict(set)
        for entry, found in self.objects.items():
            if found.aliased or found.objtype == "module":
                continue
            module = next(module for module in _parents(entry) if self.objects.get(module, found).objtype == "module")
            parts = entry.split(".")
            for start in range(module.count(".") + 2):
                self.named[".".join(parts[start:])].add(entry)

    def find(self, text: str, inside: str) -> tuple[str, str] | None:
        """The page and the anchor that inline code in the entry of a class names."""
        if text in CODES:
            return CODES_PAGE, f"code-{text}"
        words = text.split()
        for length in range(len(words), 1, -1):
            if (command := " ".join(words[:length])) in COMMANDS or (command := f"tppkit {command}") in COMMANDS:
                return COMMANDS_PAGE, COMMANDS[command]
        name = re.sub(r"\([^()]*\)$", "", text)
        entries = {f"{inside}.{name}"} & {*self.objects} or self.named.get(name, set())
        if len(entries) != 1:
            return None
        found = self.objects[next(iter(entries))]
        return found.docname, found.node_id


def _parents(entry: str) -> Iterator[str]:
    while "." in entry:
        entry = entry.rpartition(".")[0]
        yield entry


def link_inline_code(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Let inline code that names a public object, a stable code or a command link to it."""
    for dash in [text for text in doctree.findall(nodes.Text) if text == " -- "]:  # behind the name of a parameter
        dash.parent.replace(dash, nodes.Text(": "))
    links = Links(app)
    for literal in list(doctree.findall(nodes.literal)):
        around = list(_around(literal))
        if any(
            isinstance(one, nodes.reference | nodes.title | addnodes.desc_signature | addnodes.pending_xref)
            for one in around
        ):
            continue
        inside = next(
            (one[0]["fullname"] for one in around if isinstance(one, addnodes.desc) and one["objtype"] == "class"), ""
        )
        module = next((one[0]["module"] for one in around if isinstance(one, addnodes.desc)), "")
        found = links.find(literal.astext(), f"{module}.{inside}")
        if found and found not in (
            (docname, one) for node in around for one in getattr(node, "attributes", {}).get("ids", ())
        ):
            literal.replace_self(make_refnode(app.builder, docname, *found, literal.deepcopy()))


def _around(node: nodes.Node) -> Iterator[Any]:
    while node.parent is not None:
        node = node.parent
        yield node


def require_entries(app: Sphinx, env: Any) -> None:
    """Warn, so that the build fails, of a public name without an entry."""
    for name in NAMES:
        if f"{name.home}.{name.name}" not in env.get_domain("py").objects:
            LOGGER.warning("%s.%s is public, and no page has an entry for it: run make docs", name.home, name.name)


# Pages


class Anchors(SphinxTransform):
    """Give each code and each assumption an anchor, and a row in the search of its own."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        """Give it."""
        names, kind = ROWS.get(self.env.docname, (set(), ""))
        for row in self.document.findall(nodes.row):
            if (name := row[0].astext()) in names:
                row["ids"].append(f"{kind}-{name}")


class LinksOutside(SphinxTransform):
    """Leave the text of a link to a file of the project that is no page of the site."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        """Leave it."""
        for link in list(self.document.findall(addnodes.pending_xref)):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(self.env.docname), link["reftarget"]))
            if link["reftype"] == "myst" and target.startswith(("../", "/")):
                link.replace_self(link.children)


class Diagrams(SphinxTransform):
    """Replace the source of a diagram by its two pictures."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        """Replace it."""
        for block in list(self.document.findall(nodes.literal_block)):
            if block.get("language") == "mermaid":
                name = digest(block.astext().rstrip("\n"))
                block.replace_self(
                    [
                        nodes.image(
                            uri=f"/pictures/diagrams/{name}-{scheme}.svg",
                            alt=block.astext(),
                            classes=[f"only-{scheme}"],
                        )
                        for scheme in ("light", "dark")
                    ]
                )


class Tabs(SphinxTransform):
    """Make tabs of code blocks that follow each other, each below a label in bold."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        """Make them."""
        for parent in list(self.document.findall(nodes.section)):
            tabs: list[tuple[nodes.Element, nodes.Element]] = []
            for node, after in [*zip(parent.children, [*parent.children[1:], None], strict=True)]:
                if _label(node) and isinstance(after, nodes.literal_block):
                    tabs.append((node, after))
                elif not (tabs and node is tabs[-1][1]):
                    _make_tabs(tabs)
                    tabs = []
            _make_tabs(tabs)


def _label(node: nodes.Node) -> str:
    parts = [one for one in node.children if one.astext()] if isinstance(node, nodes.paragraph) else []
    return parts[0].astext() if len(parts) == 1 and isinstance(parts[0], nodes.strong) else ""


def _make_tabs(tabs: list[tuple[Any, Any]]) -> None:
    if len(tabs) < 2:
        return
    tab_set, parent = create_component("tab-set", classes=["sd-tab-set"]), tabs[0][0].parent
    parent.insert(parent.index(tabs[0][0]), tab_set)
    for paragraph, block in tabs:
        parent.remove(paragraph)
        parent.remove(block)
        name = _label(paragraph)
        label = nodes.rubric("", name, classes=["sd-tab-label"], sync_group="tab", sync_id=name)
        content = create_component("tab-content", classes=["sd-tab-content"], children=[block])
        tab_set += create_component("tab-item", classes=["sd-tab-item"], children=[label, content])


# Search

NO_TEXT = (addnodes.index, addnodes.desc, addnodes.toctree, nodes.comment)


def write_rows(app: Sphinx, failure: Exception | None) -> None:
    """Write a row for each section, entry and code: address, title, page, text."""
    if failure or app.builder.name != "html":
        return
    rows = [row for docname in sorted(app.env.found_docs - {app.config.root_doc}) for row in _rows(app, docname)]
    target = Path(app.outdir, "_static/search-rows.js")
    target.write_text(f"window.searchRows = {json.dumps(rows, separators=(',', ':'), ensure_ascii=False)};\n", "utf-8")


def _rows(app: Sphinx, docname: str) -> Iterator[tuple[str, str, str, str]]:
    address, page = app.builder.get_target_uri(docname), app.env.titles[docname].astext()
    for node in app.env.get_doctree(docname).findall():
        if isinstance(node, nodes.section):
            own = [one for one in node.children if not isinstance(one, nodes.section | nodes.title)]
            yield f"{address}#{node['ids'][0]}", node[0].astext(), page, _text(own)
        elif isinstance(node, addnodes.desc) and node[0].get("ids"):
            yield f"{address}#{node[0]['ids'][0]}", node[0]["fullname"], page, _text(node[1:])
        elif isinstance(node, nodes.row) and node["ids"]:
            yield f"{address}#{node['ids'][0]}", node[0].astext(), page, _text(node[1:])


def _text(parts: list[nodes.Node]) -> str:
    texts = [one.astext() for part in parts for one in _leaves(part)]
    return " ".join(" ".join(texts).split())


def _leaves(node: nodes.Node) -> Iterator[nodes.Text]:
    """The texts of a part, without those that have rows of their own."""
    if isinstance(node, nodes.Text):
        yield node
    elif not (isinstance(node, NO_TEXT) or (isinstance(node, nodes.row) and node["ids"])):
        for one in node.children:
            yield from _leaves(one)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", read_docstring, priority=100)  # before napoleon
    app.connect("autodoc-process-signature", read_signature)
    app.connect("autodoc-skip-member", skip_member)
    app.connect("env-check-consistency", require_entries)
    app.connect("doctree-resolved", link_inline_code)
    app.connect("build-finished", write_rows)
    for transform in (Anchors, LinksOutside, Diagrams, Tabs):
        app.add_transform(transform)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
