// Package short has the stories of deploy/e2e that take a few seconds: the commands serve and dev, pushes, steering and
// refusals, as the built binary does them. Nothing is killed under load here.
package short
