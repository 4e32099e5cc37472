// Package accept stores pushes, on any instance. A push is judged by the names that the journal remembers
// (remember.go), gathers with others of its bucket (coalesce.go) and is answered once the timeline and, as far as the
// mode promises it, the journal have it.
package accept
