package server

import (
	"context"

	"github.com/espalier-dev/espalier/internal/program/webhook"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// Findings are the result of Check.
type Findings struct {
	// Installs are the steps by which the dialects' kinds would be installed.
	Installs []install.Step
	// Refused is why nothing would be installed; nil if everything would.
	Refused error
	// Notes are further remarks, each in one line.
	Notes []string
}

// Check returns what would be installed if the controllers started. It changes nothing.
func Check(ctx context.Context, o ManagerOptions) (Findings, error) {
	c, err := NewControllers(Options{
		Config: o.Config, Settings: o.Settings, Providers: o.Providers, Version: o.Version, Log: o.Log,
	})
	if err != nil {
		return Findings{}, err
	}
	defer c.Functions.Close()
	steps, err := c.CheckInstall(ctx)
	if steps == nil && err != nil {
		return Findings{}, err
	}
	found := Findings{Installs: steps, Refused: err, Notes: c.dialects.notes()}
	foreign, err := webhook.FindForeign(ctx, c.Client)
	switch {
	case err != nil:
		found.Notes = append(found.Notes, err.Error())
	case foreign != nil && !o.ReplaceCrossplaneWebhook:
		found.Notes = append(found.Notes, webhook.ForeignNote)
	case foreign != nil:
		found.Notes = append(found.Notes, "ValidatingWebhookConfiguration "+webhook.ForeignName+" was installed by Crossplane, and would be deleted")
	}
	return found, nil
}
