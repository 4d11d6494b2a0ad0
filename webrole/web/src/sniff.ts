// Tells from its first bytes what a file certainly is, if that is no video, before anything
// is sent. The patterns are the server's, which asks the same of what arrives.
import { $ } from './api';

export async function otherKind(file: Blob): Promise<string | undefined> {
  const { kinds = '[]', head } = $('upload').dataset;
  const bytes = new Uint8Array(await file.slice(0, Number(head)).arrayBuffer());
  const text = String.fromCharCode(...bytes); // a character for each byte
  const known: { name: string; pattern: string }[] = JSON.parse(kinds);
  return known.find((kind) => new RegExp(kind.pattern).test(text))?.name;
}
