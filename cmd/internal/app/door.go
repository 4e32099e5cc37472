package app

import (
	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/cmd/internal/config"
)

// tokensOf are the settings' tokens as HTTP takes them.
func tokensOf(list []config.Token) []api.Token {
	all := make([]api.Token, len(list))
	for i, t := range list {
		all[i] = api.Token{Name: t.Name, Hash: t.Hash(), Push: t.Push, Pull: t.Pull, Read: t.Read, Operate: t.Operate}
	}
	return all
}
