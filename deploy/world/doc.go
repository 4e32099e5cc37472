// Package world runs schedulers and leaders in a bubble of time, lets a seed decide what their users and their faults
// do, and holds what the users saw against the promises (deploy/check/history).
package world
