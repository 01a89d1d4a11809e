// Two-factor sign-in, as somebody with an app and a sheet of paper uses it.

import { Failure, flow } from './lib.mjs';

await flow(async ({ person, given, step, ask }) => {
  const signIn = async () => {
    await person.open('/signin');
    await person.fill('E-mail address', given.email);
    await person.fill('Password', given.password);
    await person.press('Sign in');
  };
  const signOut = async () => {
    await person.press('Sign out');
    await person.expectPath('/signin');
    await person.expectText('You are signed out');
  };

  step('sign in with the password alone');
  await signIn();
  await person.expectPath('/dashboard');

  step('add ipse to the app');
  await person.follow('Account');
  await person.follow('Switch it on');
  await person.expectPath('/account/totp');
  const secret = (await person.codeOf('The secret as text')).replaceAll(/\s/g, '');

  step('mistype the code');
  await person.fill('The six digits that the app shows now', '000000');
  await person.fill('Your password', given.password);
  await person.press('Switch it on');
  await person.expectText('not the code of this moment');
  const kept = (await person.codeOf('The secret as text')).replaceAll(/\s/g, '');
  if (kept !== secret) throw new Failure('the app would have to be set up again');

  step('switch it on');
  await person.fill('The six digits that the app shows now', await ask('code', secret));
  await person.fill('Your password', given.password);
  await person.press('Switch it on');
  await person.expectText('Your recovery codes');
  const codes = (await person.copy('Recovery codes')).split('\n');
  if (new Set(codes).size !== 10) throw new Failure(`ten codes are shown: ${codes.length}`);
  await person.follow('I have kept them');
  await person.expectText('Two-factor sign-in is on.');
  await person.expectText('10 recovery codes left.');

  step('sign in with a code of the app');
  await signOut();
  await ask('later', { seconds: 60 });
  await signIn();
  await person.expectPath('/signin/code');
  await person.open('/dashboard');
  await person.expectPath('/signin');
  await signIn();
  await person.fill('Code', '000000');
  await person.press('Sign in');
  await person.expectText('wrong, or was used before');
  await person.fill('Code', await ask('code', secret));
  await person.press('Sign in');
  await person.expectPath('/dashboard');

  step('sign in with a recovery code');
  await signOut();
  await signIn();
  await person.fill('Code', codes[6]);
  await person.press('Sign in');
  await person.expectPath('/dashboard');
  await person.follow('Account');
  await person.expectText('9 recovery codes left.');

  step('use that code once more');
  await signOut();
  await signIn();
  await person.fill('Code', codes[6]);
  await person.press('Sign in');
  await person.expectText('wrong, or was used before');
  await person.fill('Code', codes[7]);
  await person.press('Sign in');
  await person.expectPath('/dashboard');

  step('make new recovery codes');
  await person.open('/account/totp');
  await person.expectText('8 of 10 are left');
  await person.fill('Your password', given.password, 'Recovery codes');
  await person.press('Make new codes');
  await person.expectText('Your recovery codes');
  if ((await person.copy('Recovery codes')).includes(codes[0])) throw new Failure('an old code is among the new ones');

  step('switch it off');
  await person.open('/account/totp');
  await person.fill('Your password', 'not the password', 'Switch it off');
  await person.press('Switch it off');
  await person.expectText('This is not your password');
  await person.fill('Your password', given.password, 'Switch it off');
  await person.press('Switch it off');
  await person.expectText('Two-factor sign-in is off.');
  await signOut();
  await signIn();
  await person.expectPath('/dashboard');
});
