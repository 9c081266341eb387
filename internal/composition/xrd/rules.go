package xrd

import (
	"regexp"
	"strconv"
	"strings"
	"sync"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

var baseEnvSet = sync.OnceValue(func() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
})

// checkRules includes the rules of all schemas below.
func checkRules(s *structural.Structural, at object.Path, root bool, out *diag.List) {
	if len(s.XValidations) > 0 {
		compileRules(s, at, root, out)
	}
	for name, child := range s.Properties {
		checkRules(&child, at.Field("properties", name), child.XEmbeddedResource, out)
	}
	if s.Items != nil {
		checkRules(s.Items, at.Field("items"), s.Items.XEmbeddedResource, out)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		child := s.AdditionalProperties.Structural
		checkRules(child, at.Field("additionalProperties"), child.XEmbeddedResource, out)
	}
}

func compileRules(s *structural.Structural, at object.Path, root bool, out *diag.List) {
	at = at.Field("x-kubernetes-validations")
	results, err := cel.Compile(s, model.SchemaDeclType(s, root), celconfig.PerCallLimit, baseEnvSet(), cel.StoredExpressionsEnvLoader())
	if err != nil {
		out.Addf(at, "cannot be compiled: %v", err)
		return
	}
	for i, r := range results {
		rule := s.XValidations[i]
		if r.Error != nil {
			out.Add(ruleProblem(at.Index(i).Field("rule"), rule.Rule, r.Error.Detail))
		}
		if r.MessageExpressionError != nil {
			out.Add(ruleProblem(at.Index(i).Field("messageExpression"), rule.MessageExpression, r.MessageExpressionError.Detail))
		}
	}
}

// compileErrorPosition matches the position and the message of a compile error. An excerpt
// of the expression follows in the error.
var compileErrorPosition = regexp.MustCompile(`<input>:(\d+):(\d+): (.*)`)

// ruleProblem includes the offset of the error.
func ruleProblem(at object.Path, expression, compileError string) diag.Diagnostic {
	out := diag.Diagnostic{Path: at, Expr: expression, Problem: compileError}
	m := compileErrorPosition.FindStringSubmatch(compileError)
	if m == nil {
		return out
	}
	out.Problem = m[3]
	line, _ := strconv.Atoi(m[1]) // digits, as the pattern says
	column, _ := strconv.Atoi(m[2])
	for n, text := range strings.SplitAfter(expression, "\n") {
		if n == line-1 {
			out.Offset += column - 1
			break
		}
		out.Offset += len(text)
	}
	return out
}
