package postgresql

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// odd is a valid name in PostgreSQL that contains separators and quotes.
const odd = "a\nb,c \"d\"\\ 'e'; $1 -- ü"

// TestNamesWithSpecialCharactersAreQuoted creates all kinds with special characters in their
// names, reconciles them again, and deletes them.
func TestNamesWithSpecialCharactersAreQuoted(t *testing.T) {
	c := newTestDatabase(t)
	id := c.id()
	name := func(s string) string { return id + s + odd }
	group, base := name("g"), name("d")
	c.sql(t, "postgres", `CREATE ROLE `+pgx.Identifier{group}.Sanitize(), `CREATE ROLE `+pgx.Identifier{name("h")}.Sanitize())
	by := "crossplane.io/external-name: %q, crossplane.io/poll-interval: 1h"
	c.create(t, role, "role", fmt.Sprintf(by, name("r")), fmt.Sprintf(`forProvider: {login: true, memberOf: [%q], reassignOwnedTo: %q, configuration: {search_path: '"a,b", "c ""d""", public'}}, writeConnectionSecretToRef: {name: login}`, group, name("h")))
	c.create(t, database, "database", fmt.Sprintf(by, base), fmt.Sprintf(`forProvider: {owner: %q, onDelete: Force}`, name("r")))
	c.create(t, inside, "schema", fmt.Sprintf(by, name("s")), fmt.Sprintf(`forProvider: {database: %q, owner: %q, onDelete: Cascade}`, base, name("r")))
	c.create(t, extension, "pgcrypto", "", fmt.Sprintf(`forProvider: {database: %q, schema: %q}`, base, name("s")))
	c.awaitReady(t, role, "role")
	c.awaitReady(t, inside, "schema")
	c.awaitReady(t, extension, "pgcrypto")
	login := c.secret(t, "login", func(map[string]string) error { return nil })
	if !c.logsIn(t, name("r"), login["password"]) {
		t.Error("the role does not log in")
	}
	conn, err := pgx.Connect(t.Context(), login["uri"])
	if err != nil {
		t.Fatal(err)
	}
	var path string
	err = conn.QueryRow(t.Context(), "SHOW search_path").Scan(&path)
	conn.Close(context.Background())
	if err != nil || path != `"a,b", "c ""d""", public` {
		t.Errorf("its search path is %s, %v", path, err)
	}

	t.Log("what can be granted")
	schema := pgx.Identifier{name("s")}.Sanitize()
	thing := schema + "." + pgx.Identifier{"t" + odd}.Sanitize()
	c.sql(t, base, `CREATE TABLE `+thing+` (n int)`, `CREATE FUNCTION `+thing+`(`+pgx.Identifier{"x" + odd}.Sanitize()+` int, VARIADIC y text[]) RETURNS int LANGUAGE sql AS 'SELECT 1'`)
	for kind, privilege := range map[string]string{"Tables": "SELECT", "Functions": "EXECUTE"} {
		c.create(t, grant, strings.ToLower(kind), "", fmt.Sprintf(`forProvider: {role: %q, database: %q, schema: %q, objectType: %s, objects: [%q], privileges: [%s]}`, group, base, name("s"), kind, "t"+odd, privilege))
		c.awaitReady(t, grant, strings.ToLower(kind))
	}
	c.create(t, grant, "member", "", fmt.Sprintf(`forProvider: {role: %q, memberOf: %q}`, name("h"), group))
	c.awaitReady(t, grant, "member")

	t.Log("a second look finds nothing to change")
	c.triggerReconcile(t, role, "role")
	o := c.awaitReady(t, role, "role")
	if got, _, _ := unstructured.NestedStringSlice(o.Object, "status", "atProvider", "memberOf"); len(got) != 1 || got[0] != group {
		t.Errorf("it is a member of %q", got)
	}
	if got := c.query(t, "postgres", `SELECT string_agg(g.rolname, '|') FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles r ON r.oid = m.member WHERE r.rolname = $1`, name("r")); got != group {
		t.Errorf("it is a member of %q", got)
	}

	t.Log("everything is deleted, in each database")
	for _, name := range []string{"tables", "functions", "member"} {
		c.awaitGone(t, grant, name)
	}
	c.awaitGone(t, extension, "pgcrypto")
	c.sql(t, base, `CREATE TABLE public.mine (n int)`, `ALTER TABLE public.mine OWNER TO `+pgx.Identifier{name("r")}.Sanitize())
	c.awaitGone(t, role, "role")
	if got := c.query(t, base, `SELECT tableowner FROM pg_tables WHERE tablename = 'mine'`); got != name("h") {
		t.Errorf("what it had is of %q", got)
	}
	c.create(t, inside, "schema", fmt.Sprintf(by, name("s")), fmt.Sprintf(`forProvider: {database: %q, onDelete: Cascade}`, base))
	c.awaitGone(t, inside, "schema")
	c.create(t, database, "database", fmt.Sprintf(by, base), `forProvider: {onDelete: Force}`)
	c.awaitGone(t, database, "database")
	c.sql(t, "postgres", `DROP ROLE `+pgx.Identifier{group}.Sanitize(), `DROP ROLE `+pgx.Identifier{name("h")}.Sanitize())
	c.expectNoBindings(t)
}

// TestNamesThatTheServerWouldTruncateAreRefused uses names that are too long, which the server
// truncates silently, and names with a zero byte: they would refer to other objects.
func TestNamesThatTheServerWouldTruncateAreRefused(t *testing.T) {
	c := newTestDatabase(t)
	id := c.id()
	long := id + strings.Repeat("ä", 63-len(id))    // 63 letters, as the schema allows
	cut := id + strings.Repeat("ä", (63-len(id))/2) // what the server makes of it
	c.sql(t, "postgres", `CREATE ROLE `+pgx.Identifier{cut}.Sanitize())
	c.create(t, role, id, "", "forProvider: {}")
	c.awaitReady(t, role, id)
	cases := map[string]struct {
		of    func() string
		words []string
	}{
		"a role's own": {func() string {
			c.create(t, role, "own", fmt.Sprintf("crossplane.io/external-name: %q", long), "forProvider: {}")
			return "own"
		}, []string{"bytes; names in PostgreSQL have 63 at most"}},
		"a group": {func() string {
			c.create(t, role, id, "", fmt.Sprintf("forProvider: {memberOf: [%q]}", long))
			return id
		}, []string{"memberOf", "bytes; names in PostgreSQL have 63 at most"}},
		"a group with a byte that ends texts": {func() string {
			c.create(t, role, id+"-nul", "", `forProvider: {memberOf: ["pg_monitor\u0000"]}`)
			return id + "-nul"
		}, []string{"memberOf", "contains a zero byte"}},
		"a value with one": {func() string {
			c.create(t, role, id+"-set", "", `forProvider: {configuration: {work_mem: "4MB\u0000"}}`)
			return id + "-set"
		}, []string{"configuration", "contains a zero byte"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := tc.of()
			c.Await(t, role, c.NS, o, syncedBecause("ReconcileError", tc.words...))
		})
	}
	if got := c.query(t, "postgres", `SELECT count(*) FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid WHERE g.rolname = $1`, cut); got != "0" {
		t.Error("it was made a member of another")
	}
	c.create(t, database, id, "", fmt.Sprintf("forProvider: {owner: %q}", long))
	c.Await(t, database, c.NS, id, syncedBecause("ReconcileError", "owner", "63 at most"))
	c.create(t, inside, "schema", "", fmt.Sprintf("forProvider: {database: postgres, owner: %q}", long))
	c.Await(t, inside, c.NS, "schema", syncedBecause("ReconcileError", "owner", "63 at most"))
	c.create(t, extension, "pgcrypto", "", fmt.Sprintf("forProvider: {database: postgres, schema: %q}", long))
	c.Await(t, extension, c.NS, "pgcrypto", syncedBecause("ReconcileError", "schema", "63 at most"))

	t.Log("and they are no reason to keep what is being deleted")
	for _, name := range []string{"own", id, id + "-nul", id + "-set"} {
		c.awaitGone(t, role, name)
	}
	c.awaitGone(t, database, id)
	c.awaitGone(t, inside, "schema")
	c.awaitGone(t, extension, "pgcrypto")
	c.sql(t, "postgres", `DROP ROLE `+pgx.Identifier{cut}.Sanitize())
	c.expectNoBindings(t)
}
