// Writes docs/api/typescript.md: every name that the package exports, entry by entry, with its declaration and its comment. With --check it writes
// nothing, and fails if the page is not what it would write.
import { readFile, writeFile } from "node:fs/promises";
import ts from "typescript";
import { declarations, entries, HOME, programOf } from "./declarations.mjs";

const PAGE = new URL("../../../docs/api/typescript.md", import.meta.url);
const HIDDEN = [ts.SyntaxKind.PrivateKeyword, ts.SyntaxKind.ProtectedKeyword];
const COMMAND = "node tools/api.mjs";

const files = declarations();
const listed = entries();
const program = programOf(
  listed.map(({ types }) => types),
  files,
  { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, strict: true, noEmit: true, skipLibCheck: true, types: [] },
);
const checker = program.getTypeChecker();
/** The headings' anchors. */
const anchors = new Map();

/** Where a name is described: in the first entry that exports it, or else in the first one that refers to it. */
const home = new Map();
const modules = modulesOf();

const page = [
  "# API of the TypeScript SDK",
  "",
  `Every name that the package exports, by entry. This page is made from the types: \`${COMMAND}\` in \`sdk/typescript\` writes it, and a test compares`,
  "it. [sdk-typescript.md](../sdk-typescript.md) explains the concepts.",
  "",
  "| entry | names |",
  "| --- | --- |",
  ...modules.map(({ specifier, anchor, described }) => `| [\`${specifier}\`](#${anchor}) | ${described.map(link).join(" · ")} |`),
  ...modules.flatMap(sectionOf),
  "",
].join("\n");

if (process.argv.includes("--check")) {
  const found = await readFile(PAGE, "utf8").catch(() => "");
  if (found !== page) {
    console.error(`docs/api/typescript.md is not what the types say; run \`${COMMAND}\` in sdk/typescript and commit the page`);
    process.exitCode = 1;
  }
} else {
  await writeFile(PAGE, page);
}

/** What each entry exports first, what it exports again, and what these refer to; with the anchors of their headings, in the order of the page. */
function modulesOf() {
  const exported = listed.map(({ specifier, types }) => {
    const module = checker.getSymbolAtLocation(program.getSourceFile(types));
    const symbols = checker.getExportsOfModule(module).map(resolved).sort(byName);
    for (const symbol of symbols) if (!home.has(symbol)) home.set(symbol, specifier);
    return { specifier, module, symbols };
  });
  const used = new Map();
  /** As GitHub makes them. */
  const anchorOf = (heading) => {
    const anchor = heading.toLowerCase().replace(/[^a-z0-9_ -]/g, "").replace(/ /g, "-");
    const count = used.get(anchor) ?? 0;
    used.set(anchor, count + 1);
    return count === 0 ? anchor : `${anchor}-${count}`;
  };
  return exported.map(({ specifier, module, symbols }) => {
    const anchor = anchorOf(specifier);
    const described = symbols.filter((symbol) => home.get(symbol) === specifier);
    for (const symbol of described) anchors.set(symbol, anchorOf(symbol.name));
    const inner = innerOf(described);
    if (inner.length > 0) anchorOf(innerHeading(specifier));
    for (const symbol of inner) {
      home.set(symbol, specifier);
      anchors.set(symbol, anchorOf(symbol.name));
    }
    return { specifier, module, anchor, described, inner, again: symbols.filter((symbol) => !described.includes(symbol)) };
  });
}

function innerHeading(specifier) {
  return `Not exported by ${specifier}`;
}

function link(symbol) {
  return `[\`${symbol.name}\`](#${anchors.get(symbol)})`;
}

function sectionOf({ specifier, module, described, inner, again }) {
  return [
    "",
    `## ${specifier}`,
    ...paragraph(moduleComment(module)),
    ...paragraph(again.length > 0 && `Also exported here: ${again.map(link).join(", ")}.`),
    ...described.flatMap((symbol) => entryOf(symbol)),
    ...(inner.length === 0 ? [] : ["", `### ${innerHeading(specifier)}`, "", "The declarations above refer to these.", ...inner.flatMap((symbol) => entryOf(symbol, "####"))]),
  ];
}

function entryOf(symbol, heading = "###") {
  const comment = ts.displayPartsToString(symbol.getDocumentationComment(checker));
  const bases = declarationsOf(symbol).flatMap((one) => one.heritageClauses ?? []).flatMap(({ types }) => types.map(({ expression }) => resolved(checker.getSymbolAtLocation(expression))));
  const inherited = bases.filter((base) => anchors.has(base));
  const parts = declarationsOf(symbol).map(textOf);
  return [
    "",
    `${heading} ${symbol.name}`,
    ...paragraph(plain(comment)),
    ...paragraph(inherited.length > 0 && `Includes the members of ${inherited.map(link).join(", ")}.`),
    ...throwsOf(symbol),
    "",
    "```ts",
    parts.join("\n"),
    "```",
  ];
}

function throwsOf(symbol) {
  const tags = symbol.getJsDocTags(checker).filter(({ name }) => name === "throws");
  return tags.flatMap(({ text }) => paragraph(`Throws ${plain(ts.displayPartsToString(text))}`));
}

/** What these refer to and no entry exports. */
function innerOf(symbols) {
  const found = new Set();
  const visit = (node) => {
    if (ts.isIdentifier(node)) {
      const symbol = resolved(checker.getSymbolAtLocation(node));
      const isOurs = symbol?.declarations?.some((one) => files.has(one.getSourceFile().fileName) && isTopLevel(one)) === true;
      if (isOurs && !home.has(symbol) && !found.has(symbol)) {
        found.add(symbol);
        for (const one of declarationsOf(symbol)) visit(one);
      }
    }
    if (!isHidden(node)) ts.forEachChild(node, visit);
  };
  for (const symbol of symbols) for (const one of declarationsOf(symbol)) visit(one);
  return [...found].sort(byName);
}

function isTopLevel(node) {
  const statement = ts.isVariableDeclaration(node) ? node.parent.parent : node;
  return statement.parent !== undefined && ts.isSourceFile(statement.parent);
}

function isHidden(node) {
  if (node.name !== undefined && ts.isPrivateIdentifier(node.name)) return true;
  return ts.canHaveModifiers(node) && (ts.getModifiers(node) ?? []).some(({ kind }) => HIDDEN.includes(kind));
}

/** The statement of a variable, so that `const` and its type are shown. */
function declarationsOf(symbol) {
  return (symbol.declarations ?? []).map((one) => (ts.isVariableDeclaration(one) ? one.parent.parent : one));
}

/** A declaration without its own comment, and without what users cannot reach. */
function textOf(node) {
  const text = node.getSourceFile().text;
  if (!ts.isClassDeclaration(node)) return tidy(node.getText());
  const shown = node.members.filter((member) => !isHidden(member)).map((member) => text.slice(member.getFullStart(), member.end));
  return tidy(`${text.slice(node.getStart(), node.members.pos)}${shown.join("")}\n}`);
}

function tidy(text) {
  return text.replace(/^export /, "").replace(/^declare /, "").replace(/\{@link ([^}]+)\}/g, "`$1`");
}

/** The comment at the top of a file, with the tag @module. */
function moduleComment(module) {
  const file = module.declarations[0];
  const [, comment] = /^\/\*\*((?:(?!\*\/)[^])*?)@module/.exec(file.text) ?? [];
  return comment === undefined ? undefined : plain(comment.replace(/^ ?\* ?/gm, "").trim());
}

function plain(text) {
  return text.replace(/\{@link ([^}]+)\}/g, "`$1`");
}

function paragraph(text) {
  return text ? ["", text] : [];
}

function resolved(symbol) {
  return symbol !== undefined && symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
}

function byName(a, b) {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}
