package app

import (
	"fmt"

	"github.com/tarry-mq/tarry/cmd/internal/config"
)

// Reload takes over the settings that may change while the instance runs. They
// were checked as a whole before.
func (a *App) Reload(r config.Reloaded) error {
	if err := (topicSettings{r.Retry, r.Topics}).use(a.topics); err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	a.api.SetTokens(tokensOf(r.Tokens))
	log := a.log.Info().Int("topics", len(r.Topics)).Int("tokens", len(r.Tokens))
	if len(r.Restart) > 0 {
		log = log.Strs("need_a_restart", r.Restart)
	}
	log.Msg("settings loaded again")
	return nil
}
