// Copies hls.js, which package-lock.json pins, to where the pages load it from.
// The result is committed, so neither building nor running needs Node.
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';

const from = new URL('node_modules/hls.js/', import.meta.url);
const to = new URL('static/vendor/', import.meta.url);
await mkdir(to, { recursive: true });
await copyFile(new URL('LICENSE', from), new URL('hls.LICENSE.txt', to));
const source = await readFile(new URL('dist/hls.min.js', from), 'utf8');
// The source map is not shipped; without this line browsers do not ask for it.
await writeFile(new URL('hls.min.js', to), source.replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n'));
