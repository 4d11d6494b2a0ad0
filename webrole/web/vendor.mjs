// Copies the libraries that package-lock.json pins to where the pages and their
// scripts take them from. The result is committed, so neither building nor running
// needs Node.
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';

const to = new URL('static/vendor/', import.meta.url);
await mkdir(to, { recursive: true });

// Each: its package, its licence, the file, and the name that pages load.
for (const [pack, licence, file, name] of [
  ['hls.js', 'LICENSE', 'dist/hls.min.js', 'hls.min'],
  ['idiomorph', 'LICENSE', 'dist/idiomorph.esm.js', 'idiomorph'],
  ['js-md5', 'LICENSE.txt', 'build/md5.modern.min.mjs', 'md5.min'],
]) {
  const from = new URL(`node_modules/${pack}/`, import.meta.url);
  await copyFile(new URL(licence, from), new URL(`${name.replace('.min', '')}.LICENSE.txt`, to));
  const source = await readFile(new URL(file, from), 'utf8');
  // Source maps are not shipped; without this line browsers do not ask for them.
  await writeFile(new URL(`${name}.js`, to), source.replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n'));
}
