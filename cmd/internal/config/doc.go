// Package config holds the settings of tarry serve, of tarry dev, of tarry migrate and of the client commands. It is
// the only place that knows YAML, environment names and flags; everything else gets plain Go structs.
//
// # One table
//
// Each setting is defined once, as a field of Serve, Client, Topic, Webhook or Token. Its tags have its name, default,
// limit and the commands that read it (tarry serve if they say none). The comment above it is its help, which go
// generate copies to helps.go. Flags, environment names, YAML paths, error messages, the table in docs/settings.md and
// the sample file are all made from that. A limit is one value that both checks and describes itself, so that checks
// and documentation cannot diverge.
//
//	YAML path     http.listen            nested: http: {listen: ...}
//	environment   TARRY_HTTP_LISTEN      TARRY_, upper case, "." becomes "_"
//	flag          --http.listen
//
// # Layers
//
//	defaults  <  YAML file (--config or TARRY_CONFIG)  <  environment  <  flags
//
// Each layer is a map from names to what was given. Between merging them and filling the structs, each effective value
// is read by the limit of its row; values hidden by a higher layer are ignored. The libraries for settings cannot do
// that: their hooks get the type of a field but not its name, and fields of one type have different limits. Nor could
// the structs be checked afterwards: by then 0123 in YAML, a number, would be a password.
//
//   - A YAML key without a value and an empty environment variable count as not given. An empty flag and a quoted
//     empty YAML text do count: they clear a setting that may be empty and are refused for any other.
//   - A name that no command has is refused, with the nearest known one; of the environment only one that is near to a
//     setting's name, and only by an instance: other variables may be somebody else's, and are warned of. One file and
//     one environment may serve several commands: client settings are left alone by the daemons, and the other commands
//     leave the daemons' alone. But a file for tarry serve with a setting that only tarry dev has (or the other way
//     round) is refused, since it would change nothing.
//   - The variables that Kubernetes sets for a service called "tarry" (TARRY_PORT=tcp://..., TARRY_SERVICE_HOST)
//     are not settings and are skipped.
//
// # Errors
//
// All errors are reported at once: the error is an errors.Join of *Problem, each with the name, the value, the fault,
// the limit and the source of the value. errors.Is(err, ErrRefused) holds. Secrets are shown as *** in errors and
// however they are printed, and a value that holds user:password@ is masked up to the "@". YAML's own messages can
// quote the file, so only those known to be fixed text are repeated.
package config
