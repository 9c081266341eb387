package cli

import (
	"time"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/observe/doctor"
)

// doctorFlags are the flags of doctor.
type doctorFlags struct {
	where      clusterFlags
	output     outputFlag
	account    string
	strict     bool
	stuckAfter time.Duration
}

func newDoctor() *cobra.Command {
	var flags doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check an installation and print what to do about each problem",
		Long: "Checks the installation in a cluster: versions; whether the controllers run, and their permissions;\n" +
			"CustomResourceDefinitions; webhooks and their certificates; definitions and compositions that are not served;\n" +
			"deletions that do not end; kinds without a definition and objects without their instance; and fields that\n" +
			"another manager keeps changing. Below the table, each finding has a remedy.\n\n" +
			"It reads with the permissions of the caller and changes nothing. A check whose input could not be read\n" +
			"has the severity unknown. Of Secrets, it reads names and labels only.\n\n" +
			"Exit codes: 0 if no problems were found; 5 if some were, or, with --strict, warnings or incomplete checks;\n" +
			"1 after a failure; 2 for invalid arguments.",
		Example: "  espalier doctor\n" +
			"  espalier doctor -o json | jq '.[] | select(.severity == \"problem\")'\n" +
			"  espalier doctor --serviceaccount espalier-system:espalier --strict",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return examine(cmd, flags) },
	}
	flags.where.add(cmd)
	flags.output.add(cmd)
	cmd.Flags().StringVar(&flags.account, "serviceaccount", "", "service account of the controllers, NAMESPACE:NAME; by default their Deployments'")
	cmd.Flags().BoolVar(&flags.strict, "strict", false, "fail on warnings and on incomplete checks as well")
	cmd.Flags().DurationVar(&flags.stuckAfter, "stuck-after", 5*time.Minute, "age from which a deletion is reported")
	return cmd
}

func examine(cmd *cobra.Command, flags doctorFlags) error {
	var accounts []rbacv1.Subject
	if flags.account != "" {
		account, err := rbac.ParseServiceAccount(flags.account)
		if err != nil {
			return &usageError{err}
		}
		accounts = append(accounts, account)
	}
	config, err := flags.where.config()
	if err != nil {
		return err
	}
	state, err := gatherInstallation(cmd.Context(), config, accounts)
	if err != nil {
		return err
	}
	state.Now, state.Program, state.StuckAfter = time.Now(), Version(), flags.stuckAfter
	found := doctor.Examine(state)
	if err := flags.output.printText(cmd.OutOrStdout(), found, doctor.Text(found, widthOf(cmd.OutOrStdout()))); err != nil {
		return err
	}
	if worst := doctor.Worst(found); worst == doctor.Problem || flags.strict && worst != doctor.OK {
		return &codedError{code: exitNotReady}
	}
	return nil
}
