package cloud_test

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// An answer is lost. The call has had its effect, and a token is what makes it safe to
// ask again.
func Example() {
	dir, err := os.MkdirTemp("", "cloud")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	c, err := cloud.Open(dir, cloud.Options{
		Now: func() time.Time { return now },
		Behaviours: map[cloud.Type]cloud.Behaviour{
			cloud.TypeNetwork: {Naming: cloud.ProviderAssigned, TokenTTL: time.Hour, CreateTime: 10 * time.Second},
		},
	})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	if err := c.Inject(cloud.Fault{Verb: cloud.VerbCreate, Lose: cloud.Timeout}); err != nil {
		panic(err)
	}

	ask := cloud.CreateRequest{
		Scope: "eu-north-1/dev", Name: "main", Tags: map[string]string{"mark": "7f3a"},
		Properties: cloud.Network{CIDR: "10.0.0.0/16"}, Token: "7f3a-1",
	}
	_, err = c.Create(ask)
	fmt.Println("first:", err, errors.Is(err, cloud.Timeout))
	op, err := c.Create(ask)
	fmt.Println("again:", op.Resource, op.Status, err)

	now = c.NextChange()
	r, err := c.Get(op.Resource)
	fmt.Println("later:", r.State, r.Properties, err)
	fmt.Println("creates with an effect:", len(c.Journal().Select(cloud.Did(cloud.VerbCreate), cloud.HadEffect, cloud.Tagged("mark", "7f3a"))))
	// Output:
	// first: Timeout: the answer is lost true
	// again: network eu-north-1/dev/net-00000001 Running <nil>
	// later: ACTIVE {10.0.0.0/16} <nil>
	// creates with an effect: 1
}
