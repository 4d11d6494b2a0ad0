// Every video has a colour and a short name, both made from its id, so that they are
// the same wherever it is shown. The colour is never the only sign.

// hue spreads ids over the circle of colours: FNV-1a, as ids differ in every place.
export function hue(id: string) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < id.length; i++) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193) >>> 0;
  return Math.round((hash % 3600) / 10);
}

export const short = (id: string) => id.slice(0, 3) || '–';
