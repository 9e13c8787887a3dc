// What the environment says of the terminal.
#pragma once

namespace dsv4::tools {

// Whether the terminal knows escape sequences: TERM=dumb does not.
bool TerminalTakesEscapes();
// The same, and NO_COLOR is not set.
bool ColorIsWelcome();

}  // namespace dsv4::tools
