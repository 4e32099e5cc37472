package scheduler

import "context"

// ByNATS is the name of callers by NATS, which does not say who they are.
const ByNATS = "nats"

type callerKey struct{}

// CalledBy returns a context in which changes are made on behalf of a caller: a token of the HTTP API, or NATS. The
// stores report its name to the journal.
func CalledBy(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, callerKey{}, name)
}

// Caller returns the name of the caller, or "" if the instance acts by itself or asks for no token.
func Caller(ctx context.Context) string {
	name, _ := ctx.Value(callerKey{}).(string)
	return name
}
