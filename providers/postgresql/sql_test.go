package postgresql

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

func is[T any](v T) *T { return &v }

func TestWhatARoleNeeds(t *testing.T) {
	until := metav1.NewTime(noon)
	there := roleState{
		Name: "app", Is: map[string]bool{"LOGIN": true, "INHERIT": true}, Limit: -1, Member: []string{"readers"},
		Config: map[string]string{"search_path": `"$user", public`, "work_mem": "4MB"},
	}
	cases := map[string]struct {
		want   v1alpha1.RoleParameters
		create string
		change string
		diff   string
	}{
		"nothing is said": {create: `CREATE ROLE "app"`},
		"what is so stays": {
			want:   v1alpha1.RoleParameters{Login: is(true), ConnectionLimit: is(int32(-1)), MemberOf: []string{"readers"}},
			create: `CREATE ROLE "app" LOGIN CONNECTION LIMIT -1; GRANT "readers" TO "app"`,
		},
		"attributes": {
			want:   v1alpha1.RoleParameters{Login: is(false), Superuser: is(true), Inherit: is(true), ValidUntil: &until},
			create: `CREATE ROLE "app" NOLOGIN SUPERUSER INHERIT VALID UNTIL '2026-05-01T12:00:00Z'`,
			change: `ALTER ROLE "app" NOLOGIN SUPERUSER VALID UNTIL '2026-05-01T12:00:00Z'`,
			diff:   "login is true, and is to be false; superuser is false, and is to be true; validUntil is <nil>, and is to be 2026-05-01T12:00:00Z",
		},
		"memberships are exactly those": {
			want:   v1alpha1.RoleParameters{MemberOf: []string{"writers", "admins", "writers"}},
			create: `CREATE ROLE "app"; GRANT "admins" TO "app"; GRANT "writers" TO "app"`,
			change: `GRANT "admins" TO "app"; GRANT "writers" TO "app"; REVOKE "readers" FROM "app"`,
			diff:   "memberOf is [readers], and is to be [admins writers]",
		},
		"an empty list is of none": {
			want: v1alpha1.RoleParameters{MemberOf: []string{}}, create: `CREATE ROLE "app"`, change: `REVOKE "readers" FROM "app"`,
			diff: "memberOf is [readers], and is to be []",
		},
		"parameters are exactly those": {
			want:   v1alpha1.RoleParameters{Configuration: map[string]string{"search_path": "$user,public", "app.level": "it's"}},
			create: `CREATE ROLE "app"; ALTER ROLE "app" SET "app"."level" TO 'it''s'; ALTER ROLE "app" SET "search_path" TO '$user', 'public'`,
			change: `ALTER ROLE "app" SET "app"."level" TO 'it''s'; ALTER ROLE "app" RESET "work_mem"`,
			diff:   "configuration.app.level is , and is to be it's; configuration.work_mem is 4MB, and is to be unset",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			sql, diff := there.changes(tc.want)
			got := []string{strings.Join(createRole("app", tc.want), "; "), strings.Join(sql, "; "), strings.Join(diff, "; ")}
			if d := cmp.Diff([]string{tc.create, tc.change, tc.diff}, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestWhatTakesARoleAway(t *testing.T) {
	cases := map[string]struct {
		heir     *string
		holdings []string
		want     request
	}{
		"it has nothing":         {want: request{SQL: []string{`DROP ROLE "app"`}}},
		"nobody is to have it":   {holdings: []string{"shop"}, want: request{SQL: []string{`DROP ROLE "app"`}}},
		"one database at a time": {heir: is("heir"), holdings: []string{"shop", "store"}, want: request{Database: "shop", SQL: []string{`REASSIGN OWNED BY "app" TO "heir"`, `DROP OWNED BY "app"`}}},
		"and then the role":      {heir: is("heir"), want: request{SQL: []string{`DROP ROLE "app"`}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, (&roleState{Name: "app", Holdings: tc.holdings}).removal(tc.heir)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestWhatADatabaseNeeds(t *testing.T) {
	there := databaseState{Name: "shop", Owner: "app", Encoding: "UTF8", Collate: "en_US.utf8", CTyp: "C", Tablespace: "pg_default", Allow: true, Limit: -1}
	cases := map[string]struct {
		want           v1alpha1.DatabaseParameters
		create, change string
		stuck          string
	}{
		"nothing is said": {create: `CREATE DATABASE "shop"`},
		"all is said": {
			want: v1alpha1.DatabaseParameters{
				Owner: is("app"), Template: is("template0"), Encoding: is("utf-8"), LCCollate: is("en_US.UTF-8"), LCCType: is("C"), Tablespace: is("pg_default"),
				AllowConnections: is(true), ConnectionLimit: is(int32(-1)), IsTemplate: is(false),
			},
			create: `CREATE DATABASE "shop" OWNER "app" TEMPLATE "template0" ENCODING 'utf-8' LC_COLLATE 'en_US.UTF-8' LC_CTYPE 'C' TABLESPACE "pg_default" ALLOW_CONNECTIONS true CONNECTION LIMIT -1 IS_TEMPLATE false`,
		},
		"several at once": {
			want:   v1alpha1.DatabaseParameters{Owner: is("x"), AllowConnections: is(false), ConnectionLimit: is(int32(3)), IsTemplate: is(true)},
			create: `CREATE DATABASE "shop" OWNER "x" ALLOW_CONNECTIONS false CONNECTION LIMIT 3 IS_TEMPLATE true`,
			change: `ALTER DATABASE "shop" OWNER TO "x"; ALTER DATABASE "shop" ALLOW_CONNECTIONS false; ALTER DATABASE "shop" CONNECTION LIMIT 3; ALTER DATABASE "shop" IS_TEMPLATE true`,
		},
		"a move is alone, as it can't be in a transaction": {
			want:   v1alpha1.DatabaseParameters{Tablespace: is("fast"), Owner: is("x")},
			create: `CREATE DATABASE "shop" OWNER "x" TABLESPACE "fast"`,
			change: `ALTER DATABASE "shop" SET TABLESPACE "fast"`,
		},
		"what can't be changed is told": {
			want:   v1alpha1.DatabaseParameters{LCCType: is("de_DE.utf8")},
			create: `CREATE DATABASE "shop" LC_CTYPE 'de_DE.utf8'`, stuck: "lcCType is C, and is to be de_DE.utf8; that can't be changed: set it back, or make another database",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			change, _ := there.changes(tc.want)
			got := []string{createDatabase("shop", tc.want), strings.Join(change.SQL, "; "), there.fixed(tc.want)}
			if d := cmp.Diff([]string{tc.create, tc.change, tc.stuck}, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestWhatAGrantNeeds(t *testing.T) {
	tables := v1alpha1.GrantParameters{Role: is("app"), Database: is("shop"), ObjectType: v1alpha1.OnTables, Schema: is("s")}
	with := func(p v1alpha1.GrantParameters, option *bool, privileges ...v1alpha1.Privilege) v1alpha1.GrantParameters {
		p.Privileges, p.WithOption = privileges, option
		return p
	}
	one := tables
	one.Objects = []string{"b", "a"}
	member := v1alpha1.GrantParameters{Role: is("app"), MemberOf: is("group")}
	all := []string{"DELETE", "INSERT", "SELECT"}
	cases := map[string]struct {
		want                         v1alpha1.GrantParameters
		has                          map[string]map[string]bool
		admin                        bool
		place, grant, change, revoke string
	}{
		"all tables of a schema": {
			want: with(tables, nil, "SELECT"), has: map[string]map[string]bool{`"s"."a"`: {"SELECT": false}, `"s"."b"`: {}, `"s"."c"`: {"INSERT": false}},
			place: `shop "app" on tables of "s"`, grant: `GRANT SELECT ON ALL TABLES IN SCHEMA "s" TO "app"`,
			change: `GRANT SELECT ON TABLE "s"."b", "s"."c" TO "app"; REVOKE INSERT ON TABLE "s"."c" FROM "app"`,
			revoke: `REVOKE ALL PRIVILEGES ON ALL TABLES IN SCHEMA "s" FROM "app"`,
		},
		"two of them, with all there is and leave to grant it": {
			want: with(one, is(true), "ALL"), has: map[string]map[string]bool{`"s"."a"`: {"SELECT": false}, `"s"."b"`: {"DELETE": true, "INSERT": true, "SELECT": true}},
			place: `shop "app" on tables of "s": "a", "b"`, grant: `GRANT DELETE, INSERT, SELECT ON TABLE "s"."a", "s"."b" TO "app" WITH GRANT OPTION`,
			change: `GRANT DELETE, INSERT ON TABLE "s"."a" TO "app" WITH GRANT OPTION; GRANT SELECT ON TABLE "s"."a" TO "app" WITH GRANT OPTION`,
			revoke: `REVOKE ALL PRIVILEGES ON TABLE "s"."a", "s"."b" FROM "app"`,
		},
		"no leave to grant it any more": {
			want: with(one, is(false), "SELECT"), has: map[string]map[string]bool{`"s"."a"`: {"SELECT": true}, `"s"."b"`: {"SELECT": false}},
			place: `shop "app" on tables of "s": "a", "b"`, grant: `GRANT SELECT ON TABLE "s"."a", "s"."b" TO "app"`,
			change: `REVOKE GRANT OPTION FOR SELECT ON TABLE "s"."a" FROM "app"`, revoke: `REVOKE ALL PRIVILEGES ON TABLE "s"."a", "s"."b" FROM "app"`,
		},
		"a schema that isn't there yet": {
			want:  v1alpha1.GrantParameters{Role: is("app"), Database: is("shop"), ObjectType: v1alpha1.OnSchema, Schema: is("s"), Privileges: []v1alpha1.Privilege{"USAGE"}},
			place: `shop "app" on schema "s"`, grant: `GRANT USAGE ON SCHEMA "s" TO "app"`, revoke: `REVOKE ALL PRIVILEGES ON SCHEMA "s" FROM "app"`,
		},
		"a database that isn't there yet": {
			want:  v1alpha1.GrantParameters{Role: is("app"), Database: is("shop"), Privileges: []v1alpha1.Privilege{"CONNECT"}},
			place: ` "app" on database "shop"`, grant: `GRANT CONNECT ON DATABASE "shop" TO "app"`, revoke: `REVOKE ALL PRIVILEGES ON DATABASE "shop" FROM "app"`,
		},
		"a membership": {
			want: member, place: ` "app" in "group"`, grant: `GRANT "group" TO "app"`, revoke: `REVOKE "group" FROM "app"`,
		},
		"a membership without leave to make others members": {
			want: with(member, is(false)), admin: true, place: ` "app" in "group"`, grant: `GRANT "group" TO "app"`,
			change: `REVOKE ADMIN OPTION FOR "group" FROM "app"`, revoke: `REVOKE "group" FROM "app"`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			to, err := targetOf(tc.want)
			if err != nil {
				t.Fatal(err)
			}
			s := grantState{Privileges: tc.has, All: all, Member: true, Admin: tc.admin}
			database, place := to.place()
			change, _ := to.changes(s, tc.want)
			got := []string{database + " " + place, strings.Join(to.grant(s, tc.want), "; "), strings.Join(change, "; "), strings.Join(to.revoke(s), "; ")}
			if d := cmp.Diff([]string{tc.place, tc.grant, tc.change, tc.revoke}, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestAGrantThatMakesNoSenseIsRefused(t *testing.T) {
	cases := map[string]struct {
		p    v1alpha1.GrantParameters
		word string
	}{
		"to nobody":                             {v1alpha1.GrantParameters{}, "role is empty"},
		"of nothing":                            {v1alpha1.GrantParameters{Role: is("a"), Database: is("d")}, "privileges is empty"},
		"of a membership and of a thing":        {v1alpha1.GrantParameters{Role: is("a"), MemberOf: is("g"), Database: is("d")}, "stands for itself"},
		"of a database's schema":                {v1alpha1.GrantParameters{Role: is("a"), Database: is("d"), Schema: is("s"), Privileges: []v1alpha1.Privilege{"CONNECT"}}, "schema is set"},
		"of tables of no schema":                {v1alpha1.GrantParameters{Role: is("a"), Database: is("d"), ObjectType: v1alpha1.OnTables, Privileges: []v1alpha1.Privilege{"SELECT"}}, "schema is empty"},
		"of words that are no privilege":        {v1alpha1.GrantParameters{Role: is("a"), Database: is("d"), Privileges: []v1alpha1.Privilege{"CONNECT ON DATABASE d TO b; --"}}, "is no privilege"},
		"of no kind of thing":                   {v1alpha1.GrantParameters{Role: is("a"), Database: is("d"), Schema: is("s"), ObjectType: "Tables x", Privileges: []v1alpha1.Privilege{"SELECT"}}, "objectType"},
		"to all under a role's name in a group": {v1alpha1.GrantParameters{Role: is("public"), MemberOf: is("g")}, "public"},
		"of objects of a database":              {v1alpha1.GrantParameters{Role: is("a"), Database: is("d"), Objects: []string{"t"}, Privileges: []v1alpha1.Privilege{"CONNECT"}}, "objects are set"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := targetOf(tc.p); err == nil || !strings.Contains(err.Error(), tc.word) {
				t.Errorf("it is said: %v", err)
			}
		})
	}
}

func TestWhatAnExtensionNeeds(t *testing.T) {
	there := extensionState{Version: "1.0", Schema: "public"}
	sql, _ := there.changes("x", v1alpha1.ExtensionParameters{Version: is("1.1"), Schema: is("ext")})
	want := []string{`ALTER EXTENSION "x" UPDATE TO '1.1'`, `ALTER EXTENSION "x" SET SCHEMA "ext"`}
	if d := cmp.Diff(want, sql); d != "" {
		t.Error(d)
	}
	want = []string{"SET LOCAL search_path TO public", `CREATE EXTENSION "x" VERSION '1.1' CASCADE`}
	if d := cmp.Diff(want, createExtension("x", v1alpha1.ExtensionParameters{Version: is("1.1"), Cascade: is(true)})); d != "" {
		t.Error(d)
	}
}

func TestARequestIsTheSameWordsAndHoldsNoSecret(t *testing.T) {
	r := request{Database: "shop", SQL: []string{"SELECT 1"}, Mark: `ROLE "a"`, Password: "a", PasswordFrom: "the Secret x"}
	again, err := decode(r.encode())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r, again); d != "" {
		t.Error(d)
	}
	got := again.statements(external.Mark{ID: "1", Owner: "o"}, "SCRAM-SHA-256$x")
	want := "SELECT 1;\nALTER ROLE \"a\" PASSWORD 'SCRAM-SHA-256$x';\nCOMMENT ON ROLE \"a\" IS 'managed by espalier: o (1)'"
	if got != want {
		t.Errorf("it is %s", got)
	}
	if len(again.SQL) != 1 {
		t.Error("the request has changed")
	}
}

func TestWhatIsSaidForTheBeginningIsOverruled(t *testing.T) {
	limit := int32(3)
	got, err := beginning(v1alpha1.RoleParameters{Login: is(true), ConnectionLimit: &limit, PasswordRotation: &v1alpha1.PasswordRotation{Every: &metav1.Duration{Duration: time.Hour}}},
		v1alpha1.RoleParameters{Login: is(false), MemberOf: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	if *got.Login || *got.ConnectionLimit != 3 || len(got.MemberOf) != 1 || got.PasswordRotation.Every.Duration != time.Hour {
		t.Errorf("it is %+v", got)
	}
}
