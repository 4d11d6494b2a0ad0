// Computes MD5 sums beside the page, which would stand still for the time of a block.
import { md5 } from '../../static/vendor/md5.min.js';

export interface Question { number: number; data: ArrayBuffer }
export interface Answer { number: number; data: ArrayBuffer; sum: string }

// The block goes back with its sum: it has one owner at a time, and is never copied.
self.addEventListener('message', ({ data: { number, data } }: MessageEvent<Question>) => {
  const answer: Answer = { number, data, sum: md5.base64(data) };
  self.postMessage(answer, { transfer: [data] });
});
