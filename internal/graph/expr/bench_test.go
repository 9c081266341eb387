package expr

import "testing"

func BenchmarkEval(b *testing.B) {
	env, vars := testEnv(b), worldVars(b)
	for name, source := range map[string]string{
		"path":          `vpc.status.subnets[0].id`,
		"guarded":       `has(vpc.status.id) ? vpc.status.id : "none"`,
		"optional":      `vpc.status.?privateSubnet2ID.orValue("none")`,
		"concatenation": `vpc.status.id + "-" + schema.spec.name`,
		"comparison":    `schema.spec.replicas > 2`,
		"comprehension": `vpc.status.subnets.filter(s, s.size > 0).map(s, s.id)`,
		"merge":         `schema.spec.env.merge({"vpc": vpc.status.id})`,
		"pending path":  `vpc.status.privateSubnet2ID`,
		"pending call":  `vpc.status.privateSubnet2ID + "x"`,
	} {
		p, problems := env.Compile(source, "")
		if problems != nil {
			b.Fatal(problems)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = p.Eval(vars)
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	env := testEnv(b)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = env.Compile(`vpc.status.id + "-" + schema.spec.name`, "")
	}
}

func BenchmarkNewEnv(b *testing.B) {
	s := schemaOf(b, deploymentSchema)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewEnv([]Declaration{{Name: "schema", Schema: s}, {Name: "vpc", Schema: s}}, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
