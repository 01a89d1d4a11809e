// An account whose letters come by mail: it begins with a link, gets a new password by another, and a new address by a third.

import { Failure, flow } from './lib.mjs';

await flow(async ({ person, another, given, step, ask }) => {
  const signIn = async (email, password) => {
    await person.open('/signin');
    await person.fill('E-mail address', email);
    await person.fill('Password', password);
    await person.press('Sign in');
  };
  const signOut = async () => {
    await person.press('Sign out');
    await person.expectPath('/signin');
  };
  /** Opens the link of the letter that comes now, and resolves to it. */
  const openLetter = async (who, to, subject) => {
    const letter = await ask('letter', to);
    if (letter.subject !== subject) throw new Failure(`the letter is “${letter.subject}” and not “${subject}”`);
    const status = await who.open(letter.link);
    if (status !== 200) throw new Failure(`the link opens a page with ${status}`);
    return letter.link;
  };
  const expectOver = async (link) => {
    const status = await person.open(link);
    if (status !== 410) throw new Failure(`a link that was used opens a page with ${status}`);
    await person.expectText('This link does not work any more');
  };

  step('sign up');
  await person.open('/signup');
  await person.fill('E-mail address', given.email);
  await person.fill('Password', given.password);
  await person.press('Create account');
  await person.expectText('Look into your inbox');

  step('there is no account before the link was opened');
  await signIn(given.email, given.password);
  await person.expectText('or the password is wrong');

  step('open the link on another device');
  const other = await another();
  const signUp = await openLetter(other, given.email, 'Confirm your e-mail address');
  await other.expectText(given.email);
  step('whoever did not choose the password cannot finish the sign-up');
  await other.fill('The password that you chose', 'not the one that was chosen');
  await other.press('Confirm and sign in');
  await other.expectText('This is not the password that you typed when you signed up.');
  await other.fill('The password that you chose', given.password);
  await other.press('Confirm and sign in');
  await other.expectPath('/dashboard');
  await other.expectText('Make your first key.');
  await expectOver(signUp);

  step('forget the password');
  await signIn(given.email, given.password);
  await person.expectPath('/dashboard');
  await signOut();
  await person.follow('Forgot your password?');
  await person.fill('E-mail address', given.email);
  await person.press('Send the link');
  await person.expectText('Look into your inbox');
  const reset = await openLetter(person, given.email, 'Set a new password');
  await person.expectText(given.email);

  step('set a new one');
  await person.fill('New password', 'password');
  await person.press('Set the password');
  await person.expectText('guessers try first');
  await person.fill('New password', given.newPassword);
  await person.press('Set the password');
  await person.expectPath('/signin');
  await person.expectText('Your new password is set');
  await expectOver(reset);
  const told = await ask('letter', given.email);
  if (!told.text.includes('A new password was set')) throw new Failure('the owner is told that there is a new password');

  step('nobody is signed in with the old one');
  await other.open('/dashboard');
  await other.expectPath('/signin');
  await signIn(given.email, given.password);
  await person.expectText('or the password is wrong');

  step('sign in with the new one');
  await signIn(given.email, given.newPassword);
  await person.expectPath('/dashboard');

  step('change the address');
  await person.open('/account');
  await person.fill('New e-mail address', given.newEmail);
  await person.fill('Your password', given.newPassword, 'E-mail address');
  await person.press('Change address');
  await person.expectText('Open the link in it to confirm the change');
  await person.expectText(given.email);
  const warning = await ask('letter', given.email);
  if (!warning.text.includes('asked for another e-mail address')) throw new Failure('the old address is warned');
  const change = await openLetter(person, given.newEmail, 'Confirm your new e-mail address');
  await person.press('Confirm');
  await person.expectText('Your new e-mail address is set.');
  await person.expectText(given.newEmail);
  const farewell = await ask('letter', given.email);
  if (!farewell.text.includes('another e-mail address')) throw new Failure('the old address is told');
  await expectOver(change);

  step('sign in with the new address alone');
  await person.open('/dashboard');
  await signOut();
  await signIn(given.email, given.newPassword);
  await person.expectText('or the password is wrong');
  await signIn(given.newEmail, given.newPassword);
  await person.expectPath('/dashboard');
});
