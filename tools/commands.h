// The subcommands, one file each. Add a line here and in main.cc's table for a new one.
#pragma once

#include "tools/command.h"

namespace dsv4::tools {

void AddConvert(CLI::App& app, Selected* selected);
void AddSynth(CLI::App& app, Selected* selected);
void AddEncode(CLI::App& app, Selected* selected);
void AddParse(CLI::App& app, Selected* selected);
void AddTokenize(CLI::App& app, Selected* selected);
void AddDetokenize(CLI::App& app, Selected* selected);
void AddInspect(CLI::App& app, Selected* selected);
void AddOps(CLI::App& app, Selected* selected);
void AddTrace(CLI::App& app, Selected* selected);
void AddBench(CLI::App& app, Selected* selected);
void AddGenerate(CLI::App& app, Selected* selected);
void AddChat(CLI::App& app, Selected* selected);

}  // namespace dsv4::tools
