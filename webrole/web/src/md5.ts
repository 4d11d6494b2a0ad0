// MD5 sums of blocks, made by a worker.
import type { Answer, Question } from './entry/md5-worker';

const waiting = new Map<number, { done: (answer: Answer) => void; failed: (err: Error) => void }>();
let worker: Worker | null = null;
let asked = 0;

function start(): Worker {
  const made = new Worker('/static/md5-worker.js', { type: 'module' });
  made.addEventListener('message', ({ data }: MessageEvent<Answer>) => {
    waiting.get(data.number)?.done(data);
    waiting.delete(data.number);
  });
  made.addEventListener('error', () => {
    for (const { failed } of waiting.values()) failed(new Error('The sum of a block could not be computed. Reload the page.'));
    waiting.clear();
    worker = null;
  });
  return made;
}

// sum takes a block and returns it with its MD5 sum in base64, as storage wants it.
export function sum(data: ArrayBuffer): Promise<Answer> {
  worker ??= start();
  const question: Question = { number: asked++, data };
  const answer = new Promise<Answer>((done, failed) => waiting.set(question.number, { done, failed }));
  worker.postMessage(question, [data]);
  return answer;
}
