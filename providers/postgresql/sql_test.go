package postgresql

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

func ptr[T any](v T) *T { return &v }

func TestStatementsOfARole(t *testing.T) {
	until := metav1.NewTime(noon)
	current := roleState{
		Name: "app", Attributes: map[string]bool{"LOGIN": true, "INHERIT": true}, Limit: -1, Member: []string{"readers"},
		Config: map[string]string{"search_path": `"$user", public`, "work_mem": "4MB"},
	}
	cases := map[string]struct {
		want   v1alpha1.RoleParameters
		create string
		change string
		diff   string
	}{
		"nothing is set": {create: `CREATE ROLE "app"`},
		"what is equal is not changed": {
			want:   v1alpha1.RoleParameters{Login: ptr(true), ConnectionLimit: ptr(int32(-1)), MemberOf: []string{"readers"}},
			create: `CREATE ROLE "app" LOGIN CONNECTION LIMIT -1; GRANT "readers" TO "app"`,
		},
		"attributes": {
			want:   v1alpha1.RoleParameters{Login: ptr(false), Superuser: ptr(true), Inherit: ptr(true), ValidUntil: &until},
			create: `CREATE ROLE "app" NOLOGIN SUPERUSER INHERIT VALID UNTIL '2026-05-01T12:00:00Z'`,
			change: `ALTER ROLE "app" NOLOGIN SUPERUSER VALID UNTIL '2026-05-01T12:00:00Z'`,
			diff:   "login is true, and should be false; superuser is false, and should be true; validUntil is <nil>, and should be 2026-05-01T12:00:00Z",
		},
		"other memberships are revoked": {
			want:   v1alpha1.RoleParameters{MemberOf: []string{"writers", "admins", "writers"}},
			create: `CREATE ROLE "app"; GRANT "admins" TO "app"; GRANT "writers" TO "app"`,
			change: `GRANT "admins" TO "app"; GRANT "writers" TO "app"; REVOKE "readers" FROM "app"`,
			diff:   "memberOf is [readers], and should be [admins writers]",
		},
		"an empty list revokes all memberships": {
			want: v1alpha1.RoleParameters{MemberOf: []string{}}, create: `CREATE ROLE "app"`, change: `REVOKE "readers" FROM "app"`,
			diff: "memberOf is [readers], and should be []",
		},
		"other parameters are reset": {
			want:   v1alpha1.RoleParameters{Configuration: map[string]string{"search_path": "$user,public", "app.level": "it's"}},
			create: `CREATE ROLE "app"; ALTER ROLE "app" SET "app"."level" TO 'it''s'; ALTER ROLE "app" SET "search_path" TO '$user', 'public'`,
			change: `ALTER ROLE "app" SET "app"."level" TO 'it''s'; ALTER ROLE "app" RESET "work_mem"`,
			diff:   "configuration.app.level is , and should be it's; configuration.work_mem is 4MB, and should be unset",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			sql, diff := current.changes(tc.want)
			got := []string{strings.Join(createRole("app", tc.want), "; "), strings.Join(sql, "; "), strings.Join(diff, "; ")}
			if d := cmp.Diff([]string{tc.create, tc.change, tc.diff}, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestParametersOfARoleAreComparedWithoutCase has the names as the server spells them, whatever
// the statement that set them.
func TestParametersOfARoleAreComparedWithoutCase(t *testing.T) {
	current := roleState{Name: "app", Config: map[string]string{"TimeZone": "UTC", "DateStyle": "ISO, DMY"}}
	cases := map[string]struct {
		want   map[string]string
		change string
	}{
		"in the spelling of the server": {want: map[string]string{"TimeZone": "UTC", "DateStyle": "ISO, DMY"}},
		"in lower case":                 {want: map[string]string{"timezone": "UTC", "datestyle": "ISO, DMY"}},
		"in upper case":                 {want: map[string]string{"TIMEZONE": "UTC", "DATESTYLE": "ISO, DMY"}},
		"another value":                 {want: map[string]string{"TimeZone": "CET", "DateStyle": "ISO, DMY"}, change: `ALTER ROLE "app" SET "timezone" TO 'CET'`},
		"one that is not listed":        {want: map[string]string{"TimeZone": "UTC"}, change: `ALTER ROLE "app" RESET "datestyle"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			sql, _ := current.changes(v1alpha1.RoleParameters{Configuration: tc.want})
			if d := cmp.Diff(tc.change, strings.Join(sql, "; ")); d != "" {
				t.Error(d)
			}
		})
	}
	if err := checkRole(v1alpha1.RoleParameters{Configuration: map[string]string{"TimeZone": "UTC", "timezone": "CET"}}); err == nil || !strings.Contains(err.Error(), `"TimeZone" and "timezone" are the same parameter`) {
		t.Errorf("a parameter with two values is accepted: %v", err)
	}
}

func TestDeletionOfARole(t *testing.T) {
	cases := map[string]struct {
		newOwner  *string
		dependent []string
		want      request
	}{
		"without dependent objects":            {want: request{SQL: []string{`DROP ROLE "app"`}}},
		"without a new owner":                  {dependent: []string{"shop"}, want: request{SQL: []string{`DROP ROLE "app"`}}},
		"one database at a time":               {newOwner: ptr("other"), dependent: []string{"shop", "store"}, want: request{Database: "shop", SQL: []string{`REASSIGN OWNED BY "app" TO "other"`, `DROP OWNED BY "app"`}}},
		"the role, once nothing depends on it": {newOwner: ptr("other"), want: request{SQL: []string{`DROP ROLE "app"`}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, (&roleState{Name: "app", DependentDatabases: tc.dependent}).deletion(tc.newOwner)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestStatementsOfADatabase(t *testing.T) {
	current := databaseState{Name: "shop", Owner: "app", Encoding: "UTF8", Collate: "en_US.utf8", CTyp: "C", Tablespace: "pg_default", Allow: true, Limit: -1}
	cases := map[string]struct {
		want           v1alpha1.DatabaseParameters
		create, change string
		immutable      string
	}{
		"nothing is set": {create: `CREATE DATABASE "shop"`},
		"everything is set": {
			want: v1alpha1.DatabaseParameters{
				Owner: ptr("app"), Template: ptr("template0"), Encoding: ptr("utf-8"), LCCollate: ptr("en_US.UTF-8"), LCCType: ptr("C"), Tablespace: ptr("pg_default"),
				AllowConnections: ptr(true), ConnectionLimit: ptr(int32(-1)), IsTemplate: ptr(false),
			},
			create: `CREATE DATABASE "shop" OWNER "app" TEMPLATE "template0" ENCODING 'utf-8' LC_COLLATE 'en_US.UTF-8' LC_CTYPE 'C' TABLESPACE "pg_default" ALLOW_CONNECTIONS true CONNECTION LIMIT -1 IS_TEMPLATE false`,
		},
		"several changes": {
			want:   v1alpha1.DatabaseParameters{Owner: ptr("x"), AllowConnections: ptr(false), ConnectionLimit: ptr(int32(3)), IsTemplate: ptr(true)},
			create: `CREATE DATABASE "shop" OWNER "x" ALLOW_CONNECTIONS false CONNECTION LIMIT 3 IS_TEMPLATE true`,
			change: `ALTER DATABASE "shop" OWNER TO "x"; ALTER DATABASE "shop" ALLOW_CONNECTIONS false; ALTER DATABASE "shop" CONNECTION LIMIT 3; ALTER DATABASE "shop" IS_TEMPLATE true`,
		},
		"a change of the tablespace is a call of its own": {
			want:   v1alpha1.DatabaseParameters{Tablespace: ptr("fast"), Owner: ptr("x")},
			create: `CREATE DATABASE "shop" OWNER "x" TABLESPACE "fast"`,
			change: `ALTER DATABASE "shop" SET TABLESPACE "fast"`,
		},
		"an immutable property is reported": {
			want:   v1alpha1.DatabaseParameters{LCCType: ptr("de_DE.utf8")},
			create: `CREATE DATABASE "shop" LC_CTYPE 'de_DE.utf8'`, immutable: "lcCType is C, and should be de_DE.utf8; it cannot be changed after the creation: restore the former value, or create another database",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			change, _ := current.changes(tc.want)
			got := []string{createDatabase("shop", tc.want), strings.Join(change.SQL, "; "), current.immutableDiff(tc.want)}
			if d := cmp.Diff([]string{tc.create, tc.change, tc.immutable}, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestDeletionOfADatabase(t *testing.T) {
	cases := map[string]struct {
		params     v1alpha1.DatabaseParameters
		isTemplate bool
		want       string
	}{
		"it is dropped":                             {want: `DROP DATABASE "shop"`},
		"with its sessions":                         {params: v1alpha1.DatabaseParameters{OnDelete: v1alpha1.DatabaseForce}, want: `DROP DATABASE "shop" WITH (FORCE)`},
		"the server refuses to drop a template":     {isTemplate: true, want: `DROP DATABASE "shop"`},
		"a template that is wanted is no exception": {params: v1alpha1.DatabaseParameters{IsTemplate: ptr(true)}, isTemplate: true, want: `DROP DATABASE "shop"`},
		"one that should be no template is made an ordinary database first": {params: v1alpha1.DatabaseParameters{IsTemplate: ptr(false)}, isTemplate: true, want: `ALTER DATABASE "shop" IS_TEMPLATE false`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := (&databaseState{Name: "shop", Template: tc.isTemplate}).deletion(tc.params)
			if d := cmp.Diff(request{SQL: []string{tc.want}}, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestStatementsOfAGrant(t *testing.T) {
	tables := v1alpha1.GrantParameters{Role: ptr("app"), Database: ptr("shop"), ObjectType: v1alpha1.OnTables, Schema: ptr("s")}
	withPrivileges := func(p v1alpha1.GrantParameters, option *bool, privileges ...v1alpha1.Privilege) v1alpha1.GrantParameters {
		p.Privileges, p.WithOption = privileges, option
		return p
	}
	one := tables
	one.Objects = []string{"b", "a"}
	member := v1alpha1.GrantParameters{Role: ptr("app"), MemberOf: ptr("group")}
	all := []string{"DELETE", "INSERT", "SELECT"}
	cases := map[string]struct {
		want                       v1alpha1.GrantParameters
		has                        map[string]map[string]bool
		byOthers                   map[string]map[string]map[string]bool
		owners                     map[string]string // if the configuration is shared; the namespace manages the role own and its twin
		admin                      bool
		key, grant, change, revoke string
	}{
		"all tables of a schema": {
			want: withPrivileges(tables, nil, "SELECT"), has: map[string]map[string]bool{`"s"."a"`: {"SELECT": false}, `"s"."b"`: {}, `"s"."c"`: {"INSERT": false}},
			key: `shop "app" on tables of "s"`, grant: `GRANT SELECT ON ALL TABLES IN SCHEMA "s" TO "app"`,
			change: `GRANT SELECT ON TABLE "s"."b", "s"."c" TO "app"; REVOKE INSERT ON TABLE "s"."c" FROM "app"`,
			revoke: `REVOKE ALL PRIVILEGES ON ALL TABLES IN SCHEMA "s" FROM "app"`,
		},
		"two tables, all privileges with grant option": {
			want: withPrivileges(one, ptr(true), "ALL"), has: map[string]map[string]bool{`"s"."a"`: {"SELECT": false}, `"s"."b"`: {"DELETE": true, "INSERT": true, "SELECT": true}},
			key: `shop "app" on tables of "s": "a", "b"`, grant: `GRANT DELETE, INSERT, SELECT ON TABLE "s"."a", "s"."b" TO "app" WITH GRANT OPTION`,
			change: `GRANT DELETE, INSERT ON TABLE "s"."a" TO "app" WITH GRANT OPTION; GRANT SELECT ON TABLE "s"."a" TO "app" WITH GRANT OPTION`,
			revoke: `REVOKE ALL PRIVILEGES ON TABLE "s"."a", "s"."b" FROM "app"`,
		},
		"the grant option is revoked": {
			want: withPrivileges(one, ptr(false), "SELECT"), has: map[string]map[string]bool{`"s"."a"`: {"SELECT": true}, `"s"."b"`: {"SELECT": false}},
			key: `shop "app" on tables of "s": "a", "b"`, grant: `GRANT SELECT ON TABLE "s"."a", "s"."b" TO "app"`,
			change: `REVOKE GRANT OPTION FOR SELECT ON TABLE "s"."a" FROM "app"`, revoke: `REVOKE ALL PRIVILEGES ON TABLE "s"."a", "s"."b" FROM "app"`,
		},
		"what others than the owner have granted is revoked as they": {
			want: withPrivileges(one, ptr(false), "SELECT"), has: map[string]map[string]bool{`"s"."a"`: {"SELECT": true, "INSERT": false}, `"s"."b"`: {"SELECT": false}},
			byOthers: map[string]map[string]map[string]bool{"x": {`"s"."b"`: {"SELECT": false}}, "w": {`"s"."a"`: {"SELECT": true, "INSERT": false}}},
			key:      `shop "app" on tables of "s": "a", "b"`, grant: `GRANT SELECT ON TABLE "s"."a", "s"."b" TO "app"`,
			change: `REVOKE GRANT OPTION FOR SELECT ON TABLE "s"."a" FROM "app"; REVOKE INSERT ON TABLE "s"."a" FROM "app"; ` +
				`SET LOCAL ROLE "w"; REVOKE GRANT OPTION FOR SELECT ON TABLE "s"."a" FROM "app"; REVOKE INSERT ON TABLE "s"."a" FROM "app"`,
			revoke: `REVOKE ALL PRIVILEGES ON TABLE "s"."a", "s"."b" FROM "app"; SET LOCAL ROLE "w"; REVOKE ALL PRIVILEGES ON TABLE "s"."a" FROM "app"; ` +
				`SET LOCAL ROLE "x"; REVOKE ALL PRIVILEGES ON TABLE "s"."b" FROM "app"`,
		},
		"all tables of a schema, of which others own some": {
			want: withPrivileges(tables, nil, "SELECT"), has: map[string]map[string]bool{`"s"."a"`: {}, `"s"."b"`: {"INSERT": false}, `"s"."c"`: {}, `"s"."d"`: {"SELECT": false}, `"s"."e"`: {"SELECT": false, "DELETE": false}},
			owners: map[string]string{`"s"."a"`: "own", `"s"."b"`: "twin", `"s"."c"`: "postgres", `"s"."d"`: "own", `"s"."e"`: "postgres"},
			key:    `shop "app" on tables of "s"`,
			grant:  `SET LOCAL ROLE "own"; GRANT SELECT ON TABLE "s"."a" TO "app"; SET LOCAL ROLE "twin"; GRANT SELECT ON TABLE "s"."b" TO "app"`,
			change: `REVOKE DELETE ON TABLE "s"."e" FROM "app"; REVOKE INSERT ON TABLE "s"."b" FROM "app"; ` +
				`SET LOCAL ROLE "own"; GRANT SELECT ON TABLE "s"."a" TO "app"; SET LOCAL ROLE "twin"; GRANT SELECT ON TABLE "s"."b" TO "app"`,
			revoke: `REVOKE ALL PRIVILEGES ON ALL TABLES IN SCHEMA "s" FROM "app"`,
		},
		"what others own and is granted already differs in nothing": {
			want: withPrivileges(tables, nil, "SELECT"), has: map[string]map[string]bool{`"s"."a"`: {"SELECT": false}, `"s"."b"`: {}},
			owners: map[string]string{`"s"."a"`: "own", `"s"."b"`: "postgres"},
			key:    `shop "app" on tables of "s"`, revoke: `REVOKE ALL PRIVILEGES ON ALL TABLES IN SCHEMA "s" FROM "app"`,
		},
		"two tables, with a shared configuration": {
			want: withPrivileges(one, ptr(true), "SELECT"), has: map[string]map[string]bool{`"s"."a"`: {"SELECT": false}, `"s"."b"`: {}}, owners: map[string]string{`"s"."a"`: "own", `"s"."b"`: "own"},
			key:    `shop "app" on tables of "s": "a", "b"`,
			grant:  `SET LOCAL ROLE "own"; GRANT SELECT ON TABLE "s"."a", "s"."b" TO "app" WITH GRANT OPTION`,
			change: `SET LOCAL ROLE "own"; GRANT SELECT ON TABLE "s"."a", "s"."b" TO "app" WITH GRANT OPTION`,
			revoke: `REVOKE ALL PRIVILEGES ON TABLE "s"."a" FROM "app"`,
		},
		"a schema that does not exist yet": {
			want: v1alpha1.GrantParameters{Role: ptr("app"), Database: ptr("shop"), ObjectType: v1alpha1.OnSchema, Schema: ptr("s"), Privileges: []v1alpha1.Privilege{"USAGE"}},
			key:  `shop "app" on schema "s"`, grant: `GRANT USAGE ON SCHEMA "s" TO "app"`, revoke: `REVOKE ALL PRIVILEGES ON SCHEMA "s" FROM "app"`,
		},
		"a database that does not exist yet": {
			want: v1alpha1.GrantParameters{Role: ptr("app"), Database: ptr("shop"), Privileges: []v1alpha1.Privilege{"CONNECT"}},
			key:  ` "app" on database "shop"`, grant: `GRANT CONNECT ON DATABASE "shop" TO "app"`, revoke: `REVOKE ALL PRIVILEGES ON DATABASE "shop" FROM "app"`,
		},
		"a membership": {
			want: member, key: ` "app" in "group"`, grant: `GRANT "group" TO "app"`, revoke: `REVOKE "group" FROM "app"`,
		},
		"the admin option is revoked": {
			want: withPrivileges(member, ptr(false)), admin: true, key: ` "app" in "group"`, grant: `GRANT "group" TO "app"`,
			change: `REVOKE ADMIN OPTION FOR "group" FROM "app"`, revoke: `REVOKE "group" FROM "app"`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			to, err := parseTarget(tc.want)
			if err != nil {
				t.Fatal(err)
			}
			s := grantState{Privileges: tc.has, ByOthers: tc.byOthers, All: all, Member: true, Admin: tc.admin, Owners: tc.owners}
			if tc.owners != nil {
				s.OwnRoles = map[string]bool{"own": true, "twin": true, "postgres": false}
			}
			database, key := to.key()
			change, _ := to.changes(s, tc.want)
			got := []string{database + " " + key, strings.Join(to.grant(s, tc.want), "; "), strings.Join(change, "; "), strings.Join(to.revoke(s), "; ")}
			if d := cmp.Diff([]string{tc.key, tc.grant, tc.change, tc.revoke}, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestAGrantOnManyObjectsNamesAsManyAsFit has more objects than one request can name, of two owners: further
// calls do the rest.
func TestAGrantOnManyObjectsNamesAsManyAsFit(t *testing.T) {
	p := v1alpha1.GrantParameters{Role: ptr("app"), Database: ptr("shop"), ObjectType: v1alpha1.OnFunctions, Schema: ptr("s"), Privileges: []v1alpha1.Privilege{"EXECUTE"}}
	to, err := parseTarget(p)
	if err != nil {
		t.Fatal(err)
	}
	s := grantState{Privileges: map[string]map[string]bool{}, Owners: map[string]string{}, OwnRoles: map[string]bool{"own": true, "twin": true}}
	arguments := strings.Repeat("x", 500)
	for i := range 1000 {
		object := fmt.Sprintf(`"s"."f%03d"(%s)`, i, arguments)
		s.Privileges[object], s.Owners[object] = map[string]bool{}, []string{"own", "twin", "postgres", "own"}[i%4]
	}
	sql := to.grant(s, p)
	for calls := 0; len(sql) > 0; calls++ {
		text := strings.Join(sql, "; ")
		if calls == 100 || len(text) > 2*maxObjectListSize || strings.Contains(text, "IN SCHEMA") {
			t.Fatalf("call %d has %d bytes: %.100s", calls, len(text), text)
		}
		for object, has := range s.Privileges {
			if strings.Contains(text, object) {
				has["EXECUTE"] = false
			}
		}
		sql, _ = to.changes(s, p)
	}
	for object, has := range s.Privileges {
		if isOwn := s.Owners[object] != "postgres"; isOwn != (len(has) > 0) {
			t.Errorf("%s of %s has %v", object, s.Owners[object], has)
		}
	}
	if got := s.countObjects(); got != 750 {
		t.Errorf("status.atProvider.objects is %d", got)
	}
}

func TestInvalidGrantsAreRejected(t *testing.T) {
	cases := map[string]struct {
		p       v1alpha1.GrantParameters
		wantErr string
	}{
		"no role":                            {v1alpha1.GrantParameters{}, "role is empty"},
		"no privileges":                      {v1alpha1.GrantParameters{Role: ptr("a"), Database: ptr("d")}, "privileges is empty"},
		"a membership with a database":       {v1alpha1.GrantParameters{Role: ptr("a"), MemberOf: ptr("g"), Database: ptr("d")}, "memberOf excludes"},
		"a schema with object type Database": {v1alpha1.GrantParameters{Role: ptr("a"), Database: ptr("d"), Schema: ptr("s"), Privileges: []v1alpha1.Privilege{"CONNECT"}}, "schema is set"},
		"tables without a schema":            {v1alpha1.GrantParameters{Role: ptr("a"), Database: ptr("d"), ObjectType: v1alpha1.OnTables, Privileges: []v1alpha1.Privilege{"SELECT"}}, "schema is empty"},
		"SQL in a privilege":                 {v1alpha1.GrantParameters{Role: ptr("a"), Database: ptr("d"), Privileges: []v1alpha1.Privilege{"CONNECT ON DATABASE d TO b; --"}}, "unknown privilege"},
		"an unknown object type":             {v1alpha1.GrantParameters{Role: ptr("a"), Database: ptr("d"), Schema: ptr("s"), ObjectType: "Tables x", Privileges: []v1alpha1.Privilege{"SELECT"}}, "objectType"},
		"public as a member":                 {v1alpha1.GrantParameters{Role: ptr("public"), MemberOf: ptr("g")}, "public"},
		"objects with object type Database":  {v1alpha1.GrantParameters{Role: ptr("a"), Database: ptr("d"), Objects: []string{"t"}, Privileges: []v1alpha1.Privilege{"CONNECT"}}, "objects are set"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := parseTarget(tc.p); err == nil || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("want an error with %q, got %v", tc.wantErr, err)
			}
		})
	}
}

func TestStatementsOfAnExtension(t *testing.T) {
	current := extensionState{Version: "1.0", Schema: "public"}
	sql, _ := current.changes("x", v1alpha1.ExtensionParameters{Version: ptr("1.1"), Schema: ptr("ext")})
	want := []string{`ALTER EXTENSION "x" UPDATE TO '1.1'`, `ALTER EXTENSION "x" SET SCHEMA "ext"`}
	if d := cmp.Diff(want, sql); d != "" {
		t.Error(d)
	}
	want = []string{"SET LOCAL search_path TO public", `CREATE EXTENSION "x" VERSION '1.1' CASCADE`}
	if d := cmp.Diff(want, createExtension("x", v1alpha1.ExtensionParameters{Version: ptr("1.1"), Cascade: ptr(true)})); d != "" {
		t.Error(d)
	}
}

func TestARequestSurvivesEncoding(t *testing.T) {
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
		t.Errorf("got %s", got)
	}
	if len(again.SQL) != 1 {
		t.Error("statements has changed the request")
	}
}

func TestForProviderOverridesInitProvider(t *testing.T) {
	limit := int32(3)
	got, err := mergeInit(v1alpha1.RoleParameters{Login: ptr(true), ConnectionLimit: &limit, PasswordRotation: &v1alpha1.PasswordRotation{Every: &metav1.Duration{Duration: time.Hour}}},
		v1alpha1.RoleParameters{Login: ptr(false), MemberOf: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	if *got.Login || *got.ConnectionLimit != 3 || len(got.MemberOf) != 1 || got.PasswordRotation.Every.Duration != time.Hour {
		t.Errorf("got %+v", got)
	}
}
