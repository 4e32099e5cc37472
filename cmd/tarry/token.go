package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/config"
)

// newToken returns the command that makes a token. It contacts no server: the settings hold only the digest.
func newToken() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make a token for a client, and its digest for http.tokens",
		Long: `Make a token for a client, and its digest for http.tokens. The client sends the token, the settings hold
the digest.

The token is not stored: keep what this command prints.`,
		Args: noArgs,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON for machines")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		token, err := config.NewToken()
		if err != nil {
			return err
		}
		made := struct {
			Token  string `json:"token"`
			SHA256 string `json:"sha256"`
		}{token, config.HashToken(token)}
		if asJSON {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(made)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "token   %s\nsha256  %s\n", made.Token, made.SHA256)
		return err
	}
	return cmd
}
