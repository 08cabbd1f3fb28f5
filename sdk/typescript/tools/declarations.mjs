// The type declarations of the package, as `npm run build` writes them to `dist/esm`, but made in memory: what reads them needs no build, and never
// sees those of an earlier one.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";

/** The directory of the package. */
export const HOME = fileURLToPath(new URL("../", import.meta.url));

let made;

/** The path of each declaration file, with its text. */
export function declarations() {
  return new Map((made ??= make()));
}

function make() {
  const config = ts.getParsedCommandLineOfConfigFile(`${HOME}tools/tsconfig.types.json`, {}, { ...ts.sys, onUnRecoverableConfigFileDiagnostic: fail });
  const program = ts.createProgram(config.fileNames, config.options);
  const files = new Map();
  const { diagnostics } = program.emit(undefined, (path, text) => {
    const name = path.slice(path.indexOf("/dist/types/") + "/dist/types/".length).replace(/\.d\.ts$/, ".d.mts");
    // As tools/build.mjs does it.
    files.set(`${HOME}dist/esm/${name}`, text.replace(/((?:from|import\(?)\s*["']\.\.?\/[^"']*?)\.tsx?(["'])/g, "$1.mjs$2"));
  });
  for (const diagnostic of diagnostics) fail(diagnostic);
  return files;
}

/** A program over files in memory; whatever else it asks for is read from the disk. */
export function programOf(roots, files, options) {
  const host = ts.createCompilerHost(options);
  const directories = new Set([...files.keys()].flatMap(ancestors));
  const { readFile, fileExists, directoryExists, getSourceFile } = host;
  host.readFile = (path) => files.get(path) ?? readFile(path);
  host.fileExists = (path) => files.has(path) || fileExists(path);
  host.directoryExists = (path) => directories.has(path.replace(/\/$/, "")) || (directoryExists?.(path) ?? true);
  host.realpath = (path) => (files.has(path) ? path : (ts.sys.realpath?.(path) ?? path));
  host.getSourceFile = (path, language, ...rest) => {
    const text = files.get(path);
    return text === undefined ? getSourceFile(path, language, ...rest) : ts.createSourceFile(path, text, language, true);
  };
  return ts.createProgram(roots, options, host);
}

/** The public entries of the package: how they are imported, and their declaration files. */
export function entries() {
  const { name, exports } = JSON.parse(readFileSync(`${HOME}package.json`, "utf8"));
  return Object.entries(exports).flatMap(([path, targets]) => {
    const types = (targets.default ?? targets).import?.types ?? targets.import?.types;
    return types === undefined ? [] : [{ specifier: name + path.slice(1), types: HOME + types.slice(2) }];
  });
}

function ancestors(path) {
  const parts = path.split("/").slice(0, -1);
  return parts.map((_, at) => parts.slice(0, at + 1).join("/"));
}

function fail(diagnostic) {
  throw new Error(ts.flattenDiagnosticMessageText(diagnostic.messageText, "\n"));
}
