// Tells from its first bytes whether a file may be a video, before anything is sent.
// The server asks the same question of what arrives and has the last word.

const magics = [
  [0x1a, 0x45, 0xdf, 0xa3], // Matroska, WebM
  [0x46, 0x4c, 0x56, 0x01], // Flash video
  [0x4f, 0x67, 0x67, 0x53, 0x00], // Ogg
  [0, 0, 1, 0xba], [0, 0, 1, 0xb3], // MPEG program stream, MPEG video
  [0x30, 0x26, 0xb2, 0x75, 0x8e, 0x66, 0xcf, 0x11], // WMV
];
const boxes = ['ftyp', 'styp', 'moov', 'mdat', 'wide', 'free', 'skip', 'pnot', 'sidx']; // MP4, QuickTime
const pictures = ['heic', 'heix', 'mif1', 'avif']; // which share the box "ftyp"

// looksLikeVideo reads some hundred bytes of the file.
export async function looksLikeVideo(file: Blob): Promise<boolean> {
  const head = new Uint8Array(await file.slice(0, 512).arrayBuffer());
  const text = (from: number) => String.fromCharCode(...head.slice(from, from + 4));
  if (boxes.includes(text(4))) return !(text(4) === 'ftyp' && pictures.includes(text(8)));
  if (text(0) === 'RIFF' && text(8) === 'AVI ') return true;
  // A transport stream begins every packet of 188 or 192 bytes with the same byte.
  if (head[0] === 0x47 && head[188] === 0x47 || head[4] === 0x47 && head[196] === 0x47) return true;
  return magics.some((magic) => magic.every((byte, i) => head[i] === byte));
}
