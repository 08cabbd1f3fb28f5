import type { OutputFile } from "esbuild";

export function bundleForPages(): Promise<{ outputFiles: OutputFile[] }>;
