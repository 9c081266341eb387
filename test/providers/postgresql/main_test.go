// Package postgresql tests the PostgreSQL provider as its users meet it: on a real
// API server, with a real PostgreSQL server behind it, which the tests start from
// Debian's package and, now and then, kill.
package postgresql

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/postgresql"
	"github.com/espalier-dev/espalier/providers/postgresql/testkit/postgrestest"
	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	sdk "github.com/espalier-dev/espalier/sdk/managed"
)

// pg is the server of all tests of the package except those that stop one.
var pg *postgrestest.Server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if pg, err = postgrestest.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := pg.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	return suite.Main(m, server.Options{Providers: []sdk.Provider{postgresql.Provider(postgresql.Options{LocalServers: true})}}, nil)
}

var (
	role      = v1alpha1.GroupVersion.WithKind("Role")
	database  = v1alpha1.GroupVersion.WithKind("Database")
	inside    = v1alpha1.GroupVersion.WithKind("Schema")
	grant     = v1alpha1.GroupVersion.WithKind("Grant")
	extension = v1alpha1.GroupVersion.WithKind("Extension")
	binding   = espalier.GroupVersion.WithKind(espalier.BindingKind)
)

// testDatabase is a test's Suite, with a PostgreSQL server.
type testDatabase struct {
	suite.Suite
	pg *postgrestest.Server
}

var configure sync.Once

// newTestDatabase returns a Suite in whose cluster the ClusterProviderConfig default refers to the
// server of all tests.
func newTestDatabase(t *testing.T) testDatabase {
	t.Helper()
	c := testDatabase{suite.New(t), pg}
	configure.Do(func() { c.createProviderConfig(t, pg, "default", "default") })
	return c
}

// createProviderConfig makes a ClusterProviderConfig of a server, without TLS, and the Secret
// that it names. It allows everything: sharing_test.go is about what it could refuse.
func (c testDatabase) createProviderConfig(t *testing.T, s *postgrestest.Server, name, namespace string) {
	t.Helper()
	c.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: %[1]s-login, namespace: %[2]s}
stringData: {username: %[3]s, password: "%[4]s"}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: ClusterProviderConfig
metadata: {name: %[1]s}
spec:
  host: 127.0.0.1
  port: %[5]d
  credentials: {secretRef: {name: %[1]s-login, namespace: %[2]s}}
  tls: {mode: disable}
  allow: ["*"]
`, name, namespace, postgrestest.Superuser, postgrestest.Password, s.Port))
}

// createAdmin creates a role with a login and attributes on the server, and the Secret admin with it
// in the test's namespace.
func (c testDatabase) createAdmin(t *testing.T, attributes string) (name string) {
	t.Helper()
	name = c.id() + "-admin"
	c.sql(t, "postgres", `CREATE ROLE "`+name+`" LOGIN `+attributes+` PASSWORD 'of the admin'`)
	c.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: admin, namespace: $NS}
stringData: {username: %q, password: of the admin, endpoint: 127.0.0.1, port: "%d"}
`, name, c.pg.Port))
	return name
}

// create applies an object of a kind, named $ID by default, with the given fields of
// its spec in one line.
func (c testDatabase) create(t *testing.T, kind schema.GroupVersionKind, name, annotations, spec string) {
	t.Helper()
	c.Apply(t, fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %q, namespace: $NS, annotations: {%s}}\nspec: {%s}\n", kind.GroupVersion(), kind.Kind, name, annotations, spec))
}

// id is a name that only this test has.
func (c testDatabase) id() string { return c.Expand("$ID") }

// awaitReady waits until an object is as it is wanted, and can be used.
func (c testDatabase) awaitReady(t *testing.T, kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	t.Helper()
	return c.Await(t, kind, c.NS, name, func(o *unstructured.Unstructured) error {
		if err := syncedBecause("ReconcileSuccess")(o); err != nil {
			return err
		}
		if seen := conditionGeneration(o, "Synced"); seen != o.GetGeneration() {
			return fmt.Errorf("generation %d was seen, of %d", seen, o.GetGeneration())
		}
		return testkit.IsReady(o)
	})
}

func conditionGeneration(o *unstructured.Unstructured, kind string) int64 {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range list {
		if m, ok := item.(map[string]any); ok && m["type"] == kind {
			n, _ := m["observedGeneration"].(int64)
			return n
		}
	}
	return 0
}

// awaitGone deletes an object and waits until it has gone.
func (c testDatabase) awaitGone(t *testing.T, kind schema.GroupVersionKind, name string) {
	t.Helper()
	c.Delete(t, kind, c.NS, name)
	c.AwaitGone(t, kind, c.NS, name)
}

// syncedBecause checks the reason of Synced and what its message contains.
func syncedBecause(reason string, words ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		if got := testkit.ConditionReason(o, "Synced"); got != reason {
			return fmt.Errorf("Synced because of %s: %s", got, testkit.ConditionMessage(o, "Synced"))
		}
		for _, word := range words {
			if message := testkit.ConditionMessage(o, "Synced"); !strings.Contains(message, word) {
				return fmt.Errorf("doesn't say %q: %s", word, message)
			}
		}
		return nil
	}
}

// sql runs statements as the superuser, each by itself.
func (c testDatabase) sql(t *testing.T, database string, statements ...string) {
	t.Helper()
	conn := c.connect(t, postgrestest.Superuser, postgrestest.Password, database)
	defer conn.Close(context.Background())
	for _, statement := range statements {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func (c testDatabase) connect(t *testing.T, user, password, database string) *pgx.Conn {
	t.Helper()
	conn, err := c.pg.Connect(t.Context(), user, password, database)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// query is what a query answers, as one text.
func (c testDatabase) query(t *testing.T, database, query string, args ...any) string {
	t.Helper()
	conn := c.connect(t, postgrestest.Superuser, postgrestest.Password, database)
	defer conn.Close(context.Background())
	var answer string
	if err := conn.QueryRow(t.Context(), "SELECT coalesce(("+query+")::text, '<null>')", args...).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return answer
}

// secret waits until a Secret is there and as it should be, and returns its texts.
func (c testDatabase) secret(t *testing.T, name string, check func(map[string]string) error) map[string]string {
	t.Helper()
	var data map[string]string
	c.Await(t, suite.Secret, c.NS, name, func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		data = texts(o)
		return check(data)
	})
	return data
}

// expectNoBindings waits until nothing is left of the test's managed resources.
func (c testDatabase) expectNoBindings(t *testing.T) {
	t.Helper()
	c.AwaitList(t, binding, "", "", func(all map[string]*unstructured.Unstructured) error {
		for name, b := range all {
			if ns, _, _ := unstructured.NestedString(b.Object, "spec", "owner", "namespace"); ns == c.NS {
				return fmt.Errorf("%s is left", name)
			}
		}
		return nil
	})
}
