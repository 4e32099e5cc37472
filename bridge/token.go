package bridge

// Tokens end the reply subjects of publishes: six bits a character, of those
// that every subject may hold.
const tokenAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"

const tokenLen = (slotBits + genBits) / 6

// appendToken writes t behind b, always tokenLen characters.
func appendToken(b []byte, t token) []byte {
	for shift := slotBits + genBits - 6; shift >= 0; shift -= 6 {
		b = append(b, tokenAlphabet[t>>shift&63])
	}
	return b
}

// parseToken is the way back.
func parseToken(s string) (t token, ok bool) {
	if len(s) != tokenLen {
		return 0, false
	}
	for i := range tokenLen {
		c := s[i]
		var v token
		switch {
		case '0' <= c && c <= '9':
			v = token(c - '0')
		case 'A' <= c && c <= 'Z':
			v = token(c-'A') + 10
		case 'a' <= c && c <= 'z':
			v = token(c-'a') + 36
		case c == '-':
			v = 62
		case c == '_':
			v = 63
		default:
			return 0, false
		}
		t = t<<6 | v
	}
	return t, true
}
