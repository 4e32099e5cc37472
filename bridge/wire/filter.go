package wire

// MatchFilter tells whether a stream with this subject filter holds the literal subject, as NATS matches: "*" is one token,
// a final ">" one or more. It allocates nothing: the cached filters of all streams are tried for every message that leaves.
func MatchFilter(filter, subject string) bool {
	if subject == "" {
		return false
	}
	for {
		f, restF, moreF := token(filter)
		if f == ">" && !moreF {
			return true // the caller only comes here with a token of the subject left
		}
		s, restS, moreS := token(subject)
		if f != "*" && f != s {
			return false
		}
		if s == "" {
			return false
		}
		if !moreF || !moreS {
			return moreF == moreS
		}
		filter, subject = restF, restS
	}
}

// token splits off what stands before the first dot.
func token(s string) (first, rest string, more bool) {
	for i := range len(s) {
		if s[i] == '.' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}
