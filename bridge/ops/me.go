package ops

import (
	"cmp"
	"context"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Me tells a caller who it is, what it may do and whom it asks.
type Me struct {
	Name string `json:"name"`
	// Open reports that the instance asks nobody for a token, so that everybody has all rights.
	Open    bool     `json:"open"`
	Read    bool     `json:"read"`
	Operate bool     `json:"operate"`
	Bodies  bool     `json:"bodies"` // it may see headers and bodies
	Push    []string `json:"push"`   // topics, as patterns
	Pull    []string `json:"pull"`

	Namespace string        `json:"namespace"`
	Instance  string        `json:"instance"`
	Version   string        `json:"version"`
	Journal   string        `json:"journal"` // its mode
	Now       message.Milli `json:"now"`
}

func (o *Ops) me(_ context.Context, by *Caller, _ *Nothing) (*Me, error) {
	me := &Me{Name: by.Name(), Open: by.Token == nil, Read: by.MayRead(), Bodies: by.MaySee(), Push: []string{">"},
		Pull: []string{">"}, Operate: true, Namespace: o.Namespace, Instance: o.Instance, Version: o.Version,
		Journal: cmp.Or(o.JournalMode, "off"), Now: message.Milli(o.Now().UnixMilli())}
	if t := by.Token; t != nil {
		me.Operate, me.Push, me.Pull = t.Operate, append([]string{}, t.Push...), append([]string{}, t.Pull...)
	}
	return me, nil
}
