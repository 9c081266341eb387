package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/program/webhook"
)

func TestWebhookFlags(t *testing.T) {
	cases := map[string]struct {
		reason string
		args   string
		want   *webhook.Options
		err    string
	}{
		"no flags serve no webhook": {reason: "it needs an address", args: ""},
		"a client CA needs a webhook": {
			reason: "it would have no effect", args: "--webhook-client-ca=ca.crt", err: "--webhook-client-ca require --webhook-bind-address",
		},
		"names need a client CA": {
			reason: "a name alone proves nothing", args: "--webhook-bind-address=:9443 --webhook-url=https://x --webhook-client-allowed-names=a",
			err: "--webhook-client-allowed-names requires --webhook-client-ca",
		},
		"certificates of some names": {
			reason: "the authority may sign others'",
			args:   "--webhook-bind-address=:9443 --webhook-url=https://x --webhook-secret-namespace=ns --webhook-client-ca=ca.crt --webhook-client-allowed-names=a,b",
			want:   &webhook.Options{Address: ":9443", URL: "https://x", Namespace: "ns", ClientCA: "ca.crt", ClientNames: []string{"a", "b"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var f webhookFlags
			cmd := &cobra.Command{}
			f.add(cmd)
			if err := cmd.ParseFlags(strings.Fields(tc.args)); err != nil {
				t.Fatal(err)
			}
			got, err := f.options()
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
