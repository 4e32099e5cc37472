// Package browser opens what tarry shows to people in a real browser, Debian's chromium-headless-shell, against the
// built program. It is a module of its own, so that nothing of the browser's protocol is required by tarry.
package browser
