package link

// StreamName returns the name of a namespace's intake stream.
func StreamName(namespace string) string { return StreamPrefix + namespace }

// RejectsName returns the name of a namespace's stream of rejects.
func RejectsName(namespace string) string { return rejectsPrefix + namespace }

const (
	StreamPrefix  = "TARRY_"
	rejectsPrefix = "TARRY_REJECTED_"
)

// RejectsSubject returns the start of the subjects of rejects. The first token of the refused push's topic follows, so
// the limits of a subject apply to all topics with the same first token.
func RejectsSubject(namespace string) string { return "tarry." + namespace + ".rejected" }
