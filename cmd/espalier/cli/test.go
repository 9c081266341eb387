package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/authoring/workspace"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/simulation"
	"github.com/espalier-dev/espalier/internal/simulation/deftest"
)

// testFlags are the flags of test.
type testFlags struct {
	offlineFlags
	update   bool
	junit    string
	parallel int
	fuzz     int
	seed     uint64
	files    []string
}

func newTest() *cobra.Command {
	var flags testFlags
	cmd := &cobra.Command{
		Use:   "test DIR...",
		Short: "Test definitions with fixtures, without a cluster",
		Long: "Runs the tests in files that end in " + deftest.FileSuffix + ": each applies objects in an empty cluster in\n" +
			"memory, gives objects the states that other controllers would, step by step, and checks what the\n" +
			"instances consist of, their statuses, what waits and which problems there are. The controllers\n" +
			"themselves run; functions are called.\n\n" +
			"Beside the expectations in a test, the whole result of each step is compared with the file that ends\n" +
			"in " + deftest.ExpectedSuffix + " instead, if there is one; --update writes it. docs/testing.md has the format.\n\n" +
			"At the end it lists the nodes and branches that no test has reached.\n\n" +
			"With --fuzz N -f FILE instead of directories, it draws N instances from the schema of each kind that\n" +
			"the files define, and reports expressions that have no value for one, invalid names and the like,\n" +
			"each with the instance.\n\n" +
			"Exit codes: 0 if all tests pass, 1 if one fails or there is none, 2 for invalid arguments.",
		Example: "  espalier test platform/\n" +
			"  espalier test platform/ --update\n" +
			"  espalier test . --junit report.xml\n" +
			"  espalier test --fuzz 100 -f platform/webapp.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.fuzz != 0 || len(flags.files) > 0 {
				return flags.runFuzz(cmd, args)
			}
			return flags.run(cmd, args)
		},
	}
	flags.offlineFlags.add(cmd)
	cmd.Flags().BoolVar(&flags.update, "update", false, "write the expected results")
	cmd.Flags().StringVar(&flags.junit, "junit", "", "file for the results in the XML format of JUnit")
	cmd.Flags().IntVar(&flags.fuzz, "fuzz", 0, "number of instances to draw of each kind that the files of -f define")
	cmd.Flags().Uint64Var(&flags.seed, "seed", 1, "with --fuzz: the seed; the same one draws the same instances")
	cmd.Flags().StringSliceVarP(&flags.files, "filename", "f", nil, "with --fuzz: file or directory with definitions; repeatable")
	cmd.Flags().IntVar(&flags.parallel, "parallel", 8, "number of tests that run at the same time")
	return cmd
}

// definitionTest is a test file and its result.
type definitionTest struct {
	path     string
	report   deftest.Report
	steps    int
	files    []*workspace.File
	coverage deftest.Coverage
}

func (f *testFlags) run(cmd *cobra.Command, dirs []string) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	if len(dirs) == 0 {
		return &usageError{errors.New("test takes directories with tests, or --fuzz and files")}
	}
	if f.parallel < 1 {
		return &usageError{fmt.Errorf("--parallel must be at least 1, not %d", f.parallel)}
	}
	paths, err := testFiles(dirs)
	if err != nil {
		return err
	}
	options, err := f.simulated(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	stop, err := f.runPackages(&options.Functions)
	if err != nil {
		return err
	}
	defer stop()
	tests := make([]*definitionTest, len(paths))
	group, ctx := errgroup.WithContext(cmd.Context())
	group.SetLimit(f.parallel)
	for i, path := range paths {
		tests[i] = &definitionTest{path: path}
		group.Go(func() error {
			began := time.Now()
			f.runOne(ctx, cmd, tests[i], options)
			tests[i].report.Seconds = time.Since(began).Seconds()
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return f.print(cmd.OutOrStdout(), tests)
}

// maxFuzz bounds the instances of each kind that are drawn.
const maxFuzz = 10_000

// runFuzz draws instances of the kinds that files define, and prints what fails.
func (f *testFlags) runFuzz(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 0:
		return &usageError{errors.New("--fuzz takes files by -f, and no directories of tests")}
	case len(f.files) == 0:
		return &usageError{errors.New("--fuzz takes files: -f FILE")}
	case f.fuzz < 1 || f.fuzz > maxFuzz:
		return &usageError{fmt.Errorf("--fuzz must be from 1 to %d, not %d", maxFuzz, f.fuzz)}
	}
	if err := f.check(cmd); err != nil {
		return err
	}
	objects, err := appliedObjects(cmd, f.files)
	if err != nil {
		return err
	}
	options, err := f.simulated(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	stop, err := f.runPackages(&options.Functions)
	if err != nil {
		return err
	}
	defer stop()
	if err := startPackages(cmd.Context(), options.Functions, objectsOf(objects)); err != nil {
		return err
	}
	found, err := simulation.Fuzz(cmd.Context(), options, objects, simulation.Drawing{Namespace: f.namespace, Instances: f.fuzz, Seed: f.seed, Timeout: f.wait})
	if err != nil {
		return err
	}
	for _, finding := range found.Findings {
		raw, err := yaml.Marshal(finding.Instance.Object)
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "# %s\n%s---\n", strings.ReplaceAll(finding.Problem.String(), "\n", "\n# "), raw)
	}
	summary := fmt.Sprintf("%s with seed %d; the kinds' rules refuse %d of them", diag.Counted(found.Instances, "instance", "instances"), f.seed, found.Refused)
	if len(found.Findings) > 0 {
		return fmt.Errorf("%s in %s", diag.Counted(len(found.Findings), "problem", "problems"), summary)
	}
	fmt.Fprintln(prose(cmd.ErrOrStderr()), "no problems in "+summary)
	return nil
}

// testFiles finds the test files in directories.
func testFiles(dirs []string) ([]string, error) {
	var out []string
	for _, dir := range dirs {
		found, err := filesBelow(dir, func(path string) bool { return strings.HasSuffix(path, deftest.FileSuffix) })
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there are no files that end in %s in %s", deftest.FileSuffix, strings.Join(dirs, " and "))
	}
	return out, nil
}

// runOne runs a test file. What fails is in its report.
func (f *testFlags) runOne(ctx context.Context, cmd *cobra.Command, t *definitionTest, options server.ManagerOptions) {
	t.report.File, t.report.Name = t.path, t.path
	fail := func(step, message string) {
		t.report.Failures = append(t.report.Failures, deftest.Failure{Step: step, Message: message})
	}
	text, err := readManifest(t.path)
	if err != nil {
		fail("read", err.Error())
		return
	}
	test, err := deftest.Parse(text)
	if err != nil {
		fail("parse", err.Error())
		return
	}
	if test.Metadata.Name != "" {
		t.report.Name = test.Metadata.Name
	}
	t.steps = len(test.Steps)
	names := make([]string, len(test.Files))
	for i, name := range test.Files {
		names[i] = filepath.Join(filepath.Dir(t.path), name)
	}
	objects, err := appliedObjects(cmd, names)
	if err != nil {
		fail("files", err.Error())
		return
	}
	if t.files, err = readFiles(cmd, names); err != nil {
		fail("files", err.Error())
		return
	}
	functions := objectsOf(objects)
	for _, step := range test.Steps {
		for _, o := range step.Apply {
			functions = append(functions, &unstructured.Unstructured{Object: o})
		}
	}
	if err := startPackages(ctx, options.Functions, functions); err != nil {
		fail("packages", err.Error())
		return
	}
	results, coverage, err := simulation.RunTest(ctx, options, test, objects, t.path, f.wait)
	t.coverage = coverage
	if err != nil {
		fail("run", err.Error())
		return
	}
	for i, result := range results {
		for _, message := range result.Failures {
			fail(test.Title(i), message)
		}
	}
	if err := f.compare(t, test, results); err != nil {
		fail("expected", err.Error())
	}
}

// compare compares the results with the file of what is expected, or writes it.
func (f *testFlags) compare(t *definitionTest, test *deftest.Test, results []simulation.StepResult) error {
	path := strings.TrimSuffix(t.path, deftest.FileSuffix) + deftest.ExpectedSuffix
	var b strings.Builder
	for i, r := range results {
		text, err := r.State.Text()
		if err != nil {
			return err
		}
		b.WriteString("# step: " + test.Title(i) + "\n" + text)
	}
	if f.update {
		return os.WriteFile(path, []byte(b.String()), 0o644) //nolint:gosec // a file of the source tree, for everybody who can read that
	}
	want, err := readManifest(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && test.HasExpectations():
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the test expects nothing, and there is no file %s; write it with --update", filepath.Base(path))
	case err != nil:
		return err
	case want == b.String():
		return nil
	}
	return errors.New("the result is another:\n" + udiff.Unified(filepath.Base(path), "result", want, b.String()))
}

// testsText is the results of tests for a terminal of the given width; a width of 0 means no limit. Comparisons of files are not wrapped.
func testsText(tests []*definitionTest, width int) string {
	var b strings.Builder
	line := func(prefix, format string, args ...any) {
		diag.WrapHanging(&b, prefix, strings.Fields(fmt.Sprintf(format, args...)), width)
	}
	for _, t := range tests {
		if len(t.report.Failures) == 0 {
			line("ok    ", "%s: %s (%s)", t.path, t.report.Name, diag.Counted(t.steps, "step", "steps"))
			continue
		}
		line("FAIL  ", "%s: %s", t.path, t.report.Name)
		for _, failure := range t.report.Failures {
			message, comparison, _ := strings.Cut(failure.Message, "\n")
			line("      ", "%s: %s", failure.Step, message)
			if comparison != "" {
				b.WriteString("      " + strings.ReplaceAll(comparison, "\n", "\n      ") + "\n")
			}
		}
	}
	return b.String()
}

// print prints the results and the coverage, and writes the report.
func (f *testFlags) print(to io.Writer, tests []*definitionTest) error {
	failed := 0
	reports := make([]deftest.Report, len(tests))
	for i, t := range tests {
		reports[i] = t.report
		if len(t.report.Failures) > 0 {
			failed++
		}
	}
	fmt.Fprint(to, testsText(tests, widthOf(to)))
	fmt.Fprint(prose(to), deftest.CoverageText(coverageOf(tests)))
	if f.junit != "" {
		raw, err := deftest.JUnit(reports)
		if err == nil {
			err = os.WriteFile(f.junit, raw, 0o644) //nolint:gosec // a report for everybody who can read the directory
		}
		if err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %s failed", failed, diag.Counted(len(tests), "test", "tests"))
	}
	return nil
}

// coverageOf is the coverage of the definitions in the files of tests.
func coverageOf(tests []*definitionTest) []deftest.KindCoverage {
	var all deftest.Coverage
	definitions := map[schema.GroupKind]*workspace.Graph{}
	for _, t := range tests {
		all.Merge(t.coverage)
		for _, g := range workspace.New(t.files, workspace.Options{}).Graphs() {
			definitions[g.Spec.Schema.InstanceKind().GroupKind()] = g
		}
	}
	out := make([]deftest.KindCoverage, 0, len(definitions))
	for kind, g := range definitions {
		out = append(out, all.Of(kind, g.Graph))
	}
	return out
}
