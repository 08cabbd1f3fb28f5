// The package as its users get it: packed, and installed in a project of its own. Nothing is written into the clone.

import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { execute, HOME } from "./package.ts";

/** The packed package, and the projects it is installed in. */
export class Packed {
  readonly #scratch: string;
  readonly tarball: string;

  private constructor(scratch: string, tarball: string) {
    this.#scratch = scratch;
    this.tarball = tarball;
  }

  static async build(): Promise<Packed> {
    const scratch = await mkdtemp(join(tmpdir(), "event-hub-package-"));
    try {
      const source = join(scratch, "source");
      await mkdir(source);
      await execute("node", ["tools/build.mjs", source]);
      for (const file of ["package.json", "README.md"]) await cp(join(HOME, file), join(source, file));
      const words = ["pack", "--json", "--loglevel=silent", "--pack-destination", scratch];
      const packed = JSON.parse(await execute("npm", words, source)) as { filename: string }[];
      return new Packed(scratch, join(scratch, packed[0]?.filename ?? ""));
    } catch (error) {
      await rm(scratch, { recursive: true, force: true });
      throw error;
    }
  }

  /** A new project with the package in it, other packages, and these files. */
  async project(name: string, files: Record<string, string>, ...packages: string[]): Promise<string> {
    const directory = await mkdtemp(join(this.#scratch, `${name}-`));
    for (const [file, text] of Object.entries(files)) {
      const path = join(directory, file);
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, text);
    }
    const quiet = ["--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"];
    await execute("npm", ["install", ...quiet, this.tarball, ...packages], directory);
    return directory;
  }

  remove(): Promise<void> {
    return rm(this.#scratch, { recursive: true, force: true });
  }
}
