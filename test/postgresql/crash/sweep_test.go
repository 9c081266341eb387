// Package crash stops the controllers after their first, second, … last write about
// a role whose password is rotated and about a database, and looks whether the
// PostgreSQL server and the API server end as they would have without.
package crash

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/postgres"
	"github.com/espalier-dev/espalier/providers/postgresql"
	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

var (
	role     = v1alpha1.GroupVersion.WithKind("Role")
	database = v1alpha1.GroupVersion.WithKind("Database")
	binding  = espalier.GroupVersion.WithKind(espalier.BindingKind)
	secret   = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
)

type silent struct{}

func (silent) Event(runtime.Object, telemetry.Severity, string, string) {}

// run starts the controllers and returns how to stop them.
func run(t *testing.T, config *rest.Config) (stop func()) {
	t.Helper()
	c, err := server.NewControllers(server.Options{
		Config: config, Workers: 4, Version: "test", Log: logr.Discard(), Events: silent{}, Providers: []managed.Provider{postgresql.Provider(postgresql.Options{LocalServers: true})},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Run(ctx) // a crash is an error
	}()
	return func() { cancel(); <-done }
}

func TestSweepTheControllersDieAfterEveryWrite(t *testing.T) {
	pg, err := postgres.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Stop(); err != nil {
			t.Error(err)
		}
	})
	config := testkit.Exclusive(t)
	l := life{world: testkit.NewWorld(t, config), config: config, pg: pg}
	writes := l.live(t, 0)
	lives := 1
	for n := 1; n <= writes && !t.Failed(); n += testkit.Size(9, 1) {
		l.live(t, n)
		lives++
	}
	testkit.Say(t, "postgresql: %d lives of a role and a database, the controllers dying after one of %d writes", lives, writes)
}

// life is that of a role, whose password is rotated, and of a database of it.
type life struct {
	world  *testkit.World
	config *rest.Config
	pg     *postgres.Server
}

const things = `
apiVersion: v1
kind: Secret
metadata: {name: login, namespace: %[1]s}
stringData: {username: %[2]s, password: "%[3]s"}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: ProviderConfig
metadata: {name: default, namespace: %[1]s}
spec: {host: 127.0.0.1, port: %[4]d, credentials: {secretRef: {name: login}}, tls: {mode: disable}}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: Role
metadata: {name: %[1]s, namespace: %[1]s}
spec:
  providerConfigRef: {kind: ProviderConfig, name: default}
  forProvider: {login: true, passwordRotation: {token: %[5]s}}
  writeConnectionSecretToRef: {name: connection}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: Database
metadata: {name: %[1]s, namespace: %[1]s}
spec:
  providerConfigRef: {kind: ProviderConfig, name: default}
  forProvider: {owner: %[1]s, connectionLimit: %[6]d}
`

// live plays it, with a crash after the n-th write, and returns how many there were.
func (l life) live(t *testing.T, n int) int {
	t.Helper()
	name := testkit.Namespace(t, l.config)
	crash := testkit.NewCrash(n)
	stop := run(t, crash.Wrap(l.config))
	revived, over := make(chan func(), 1), make(chan struct{})
	go func() {
		select {
		case <-crash.Crashed():
			stop()
			revived <- run(t, l.config)
		case <-over:
			revived <- stop
		}
	}()
	defer func() {
		close(over)
		(<-revived)()
	}()
	for generation, token := range []string{"one", "two"} {
		l.world.Apply(t, fmt.Sprintf(things, name, postgres.Superuser, postgres.Password, l.pg.Port, token, 5+generation))
		l.world.Await(t, role, name, name, synced(generation+1))
		l.world.Await(t, database, name, name, synced(generation+1))
		l.opens(t, n, name, token)
	}
	if got := l.ask(t, `SELECT datconnlimit::text || (shobj_description(oid, 'pg_database') LIKE 'managed by espalier: %') FROM pg_database WHERE datname = $1`, name); got != "6true" {
		t.Errorf("crash at %d: the database is %s", n, got)
	}
	for _, kind := range []schema.GroupVersionKind{database, role} {
		l.world.Delete(t, kind, name, name)
		l.world.AwaitGone(t, kind, name, name)
	}
	if got := l.ask(t, `SELECT ((SELECT count(*) FROM pg_database WHERE datname = $1) + (SELECT count(*) FROM pg_roles WHERE rolname = $1))::text`, name); got != "0" {
		t.Errorf("crash at %d: %s things are left", n, got)
	}
	l.clear(t, name)
	return crash.Writes()
}

// opens waits until the Secret has a password for a request to rotate, and checks
// that it opens.
func (l life) opens(t *testing.T, n int, name, token string) {
	t.Helper()
	var password string
	l.world.Await(t, secret, name, "connection", func(o *unstructured.Unstructured) error {
		if o == nil {
			return fmt.Errorf("does not exist")
		}
		data, _, _ := unstructured.NestedStringMap(o.Object, "data")
		asked, _ := base64.StdEncoding.DecodeString(data["passwordRotation"])
		if data["nextPassword"] != "" || string(asked) != token {
			return fmt.Errorf("the password was made for %q", asked)
		}
		raw, err := base64.StdEncoding.DecodeString(data["password"])
		password = string(raw)
		return err
	})
	conn, err := l.pg.Connect(t.Context(), name, password, "postgres")
	if err != nil {
		t.Fatalf("crash at %d: the password in the Secret doesn't open: %v", n, err)
	}
	conn.Close(context.Background())
}

func (l life) ask(t *testing.T, query, name string) string {
	t.Helper()
	conn, err := l.pg.Connect(t.Context(), postgres.Superuser, postgres.Password, "postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var answer string
	if err := conn.QueryRow(t.Context(), query, name).Scan(&answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// synced checks that a generation has been seen to.
func synced(generation int) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return fmt.Errorf("does not exist")
		}
		if got := testkit.ReasonOf(o, "Synced"); got != "ReconcileSuccess" {
			return fmt.Errorf("Synced because of %s: %s", got, testkit.Message(o, "Synced"))
		}
		observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		if observed < int64(generation) {
			return fmt.Errorf("generation %d was seen", observed)
		}
		return testkit.IsReady(o)
	}
}

// clear waits until nothing is left of a life on the API server.
func (l life) clear(t *testing.T, name string) {
	t.Helper()
	err := testkit.AwaitAny(t.Context(), l.world.Of(t, binding, ""), metav1.ListOptions{}, func(objects map[string]*unstructured.Unstructured) error {
		for key, o := range objects {
			if owner, _, _ := unstructured.NestedString(o.Object, "spec", "owner", "name"); strings.HasPrefix(owner, name) {
				return fmt.Errorf("Binding %s is left: %v", key, o.Object["spec"])
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
