# Cheap, so these also run again when the code of the analysis changes, or its table of coverage.
ANALYSIS = sorted(path for path in layout.ANALYSIS_SOURCE.iterdir() if path.is_file())


rule aggregate:
    input:
        ANALYSIS,
        layout.SETTINGS_SOURCE,
        layout.analysed(PARAMS.cells("all"), "all"),
    output:
        ALL.summary,
        ALL.data,
        [reported(path) for path in ALL.tables],
    log:
        ALL.log("aggregate"),
    conda:
        "../envs/mujax-pipe.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        grid="all",
        settings=PARAMS.analysis_settings("all"),
    shell:
        "mujax-pipe aggregate --grid {params.grid} > {log} 2>&1"


rule plot:
    input:
        ANALYSIS,
        ALL.curves,
        ALL.scores,
        ALL.data,
    output:
        [reported(path) for path in ALL.figures],
    log:
        ALL.log("plot"),
    conda:
        "../envs/mujax-pipe.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        grid="all",
        settings=PARAMS.figure_settings("all"),
    shell:
        "mujax-pipe plot --grid {params.grid} > {log} 2>&1"


use rule aggregate as aggregate_demo with:
    input:
        ANALYSIS,
        layout.SETTINGS_SOURCE,
        layout.analysed(PARAMS.cells("demo"), "demo"),
    output:
        DEMO.summary,
        DEMO.data,
        [reported(path) for path in DEMO.tables],
    log:
        DEMO.log("aggregate"),
    params:
        grid="demo",
        settings=PARAMS.analysis_settings("demo"),


use rule plot as plot_demo with:
    input:
        ANALYSIS,
        DEMO.curves,
        DEMO.scores,
        DEMO.data,
    output:
        [reported(path) for path in DEMO.figures],
    log:
        DEMO.log("plot"),
    params:
        grid="demo",
        settings=PARAMS.figure_settings("demo"),
