// A flow that fails, for the test of how it says so.

import { Failure, flow } from './lib.mjs';

await flow(async ({ person, step, ask }) => {
  step('open');
  await person.open('/');
  await person.page.evaluate(() => setTimeout(() => { throw new Error('on purpose'); }));
  const answer = await ask('a question', { of: 1 });
  step('look');
  await person.expectText('It is here.');
  try {
    await person.expectNoText('It is here.');
  } catch (error) {
    throw new Failure(`${error.message}, and ${JSON.stringify(answer)} was answered`);
  }
});
