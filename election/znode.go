package election

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// maxTerm keeps terms below 2^53, because Lua and JSON represent numbers as doubles.
const maxTerm = 1<<53 - 1

// errBadZnode means that a znode holds data that no tarry instance writes.
var errBadZnode = errors.New("unreadable znode")

// leaderNode is the leader znode's content. Incarnation distinguishes two lives of one instance name.
type leaderNode struct {
	Leader
	Incarnation string `json:"incarnation"`
	Peer        string `json:"peer,omitempty"` // where standbys hold their link; empty if it takes none
}

// memberNode is a member znode's content.
type memberNode struct {
	Member
	Incarnation string `json:"incarnation"`
	Peer        string `json:"peer,omitempty"` // as of a leader
}

// encode cannot fail: the types hold nothing that JSON rejects, except a year past 9999.
func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode znode: %w", err)
	}
	return b, nil
}

func decodeLeader(b []byte) (leaderNode, error) {
	var n leaderNode
	if err := json.Unmarshal(b, &n); err != nil {
		return leaderNode{}, fmt.Errorf("%w: leader: %w", errBadZnode, err)
	}
	if err := checkMember(n.Instance, n.Address, ""); err != nil {
		return leaderNode{}, fmt.Errorf("%w: leader: %w", errBadZnode, err)
	}
	if n.Term > maxTerm {
		return leaderNode{}, fmt.Errorf("%w: leader: term %d is above %d", errBadZnode, n.Term, uint64(maxTerm))
	}
	return n, nil
}

func decodeMember(b []byte) (memberNode, error) {
	var n memberNode
	if err := json.Unmarshal(b, &n); err != nil {
		return memberNode{}, fmt.Errorf("%w: member: %w", errBadZnode, err)
	}
	if err := checkMember(n.Instance, n.Address, n.Version); err != nil {
		return memberNode{}, fmt.Errorf("%w: member: %w", errBadZnode, err)
	}
	return n, nil
}

func encodeTerm(term uint64) []byte { return strconv.AppendUint(nil, term, 10) }

func decodeTerm(b []byte) (uint64, error) {
	n, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil || n > maxTerm {
		return 0, fmt.Errorf("%w: term: %.30q is not a number up to %d", errBadZnode, b, uint64(maxTerm))
	}
	return n, nil
}

// nextTerm returns one more than the highest known term. A term is never reused, so running out is an error.
func nextTerm(stored, floor uint64) (uint64, error) {
	top := max(stored, floor)
	if top >= maxTerm {
		return 0, fmt.Errorf("term %d is the last one below 2^53", top)
	}
	return top + 1, nil
}
