import type ts from "typescript";

export const HOME: string;
export function declarations(): Map<string, string>;
export function programOf(roots: readonly string[], files: ReadonlyMap<string, string>, options: ts.CompilerOptions): ts.Program;
export function entries(): { specifier: string; types: string }[];
