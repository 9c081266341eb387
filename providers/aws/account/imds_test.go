package account

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

func TestOnlyTheDefaultChainOfTheClusterReadsTheMetadataOfTheMachine(t *testing.T) {
	clean(t)
	var calls atomic.Int32
	machine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		switch r.URL.Path {
		case "/latest/api/token":
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
			_, _ = fmt.Fprint(w, "token")
		case "/latest/meta-data/iam/security-credentials/", "/latest/meta-data/iam/security-credentials":
			_, _ = fmt.Fprint(w, "role")
		default:
			_, _ = fmt.Fprintf(w, `{"Code":"Success","AccessKeyId":"ASIAEC2","SecretAccessKey":"secret-of-the-machine","Token":"t","Expiration":%q}`, time.Now().Add(6*time.Hour).UTC().Format(time.RFC3339))
		}
	}))
	defer machine.Close()
	t.Setenv("AWS_EC2_METADATA_DISABLED", "")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", machine.URL)
	if err := os.WriteFile(os.Getenv("AWS_CONFIG_FILE"), []byte("[profile empty]\nregion = eu-west-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newService(t)
	all, m := forCluster(s, map[string]any{"source": "Profile", "profile": "empty"})
	if _, err := New(Options{}).Connect(context.Background(), all, m); err == nil {
		t.Error("a profile without credentials has some")
	}
	all, m = withSecret(s)
	all["ProviderConfig/team/default"]["spec"].(map[string]any)["credentials"] = map[string]any{"source": "Default"}
	delete(all["ProviderConfig/team/default"]["spec"].(map[string]any), "endpoint")
	if _, err := New(Options{LocalEndpoints: true, NamespacedIdentity: true}).Connect(context.Background(), all, m); err == nil || calls.Load() > 0 {
		t.Errorf("a ProviderConfig has the credentials of the machine: %v, %d calls", err, calls.Load())
	}
	all, m = forCluster(s, map[string]any{"source": "Default"})
	connect(t, New(Options{}), all, m)
	if s.last().AccessKey != "ASIAEC2" {
		t.Errorf("got %+v", s.last())
	}
}
