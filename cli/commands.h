/* The subcommands, each in its own file. */
#ifndef PF_CLI_COMMANDS_H
#define PF_CLI_COMMANDS_H

#include "cli/options.h"

extern const pf_command pf_command_generate;         /* cmd_generate.c */
extern const pf_command pf_command_chat;             /* cmd_chat.c */
extern const pf_command pf_command_worker;           /* cmd_worker.c */
extern const pf_command pf_command_verifier;         /* cmd_verifier.c */
extern const pf_command pf_command_top;              /* cmd_top.c */
extern const pf_command pf_command_serve;            /* cmd_serve.c */
extern const pf_command pf_command_logits;           /* cmd_logits.c */
extern const pf_command pf_command_tokenize;         /* cmd_tokenize.c */
extern const pf_command pf_command_detokenize;       /* cmd_detokenize.c */
extern const pf_command pf_command_quantize;         /* cmd_quantize.c */
extern const pf_command pf_command_info;             /* cmd_info.c */
extern const pf_command pf_command_bench_kernels;    /* cmd_bench_kernels.c */
extern const pf_command pf_command_bench_steps;      /* cmd_bench_steps.c */
extern const pf_command pf_command_bench_throughput; /* cmd_bench_throughput.c */
extern const pf_command pf_command_bench_rpc;        /* cmd_bench_rpc.c */
extern const pf_command pf_command_bench_acceptance; /* cmd_bench_acceptance.c */

#endif
